"""Files: written atomically, checked when read, and a folder of finished work."""
