"""A ledger over HTTP: sites and programs by JSON, people by pages.

`lowswitch serve run.db` starts it. The client is `lowswitch.ledger.Client`.
"""
