"""Problems: finite MDPs with exact values, those of the literature by name, and Gymnasium's."""
