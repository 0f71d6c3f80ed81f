"""Runs on many machines; their public name is `lowswitch.concurrent`.

runner       plays rounds until the run ends
state        what is to be run, and where it stands between two rounds
checkpoints  the state on disk, from which the same run goes on
sources      what is played: tables, a Gymnasium environment, a system behind a function
fleets       who plays: what a fleet is, and the one in this process
scheduler    the open fleet of remote workers: hands out pieces, replays what lost workers leave
worker       what runs in a worker: plays pieces
processes    workers that are processes of this machine
cluster      workers that are actors of a Ray cluster
mixtures     how a fleet plays a mixture of policies
gather       makes the result of a run from its last state
results      what a run returns
mistakes     what the exploration cost those who took part in it
mbie         the model-based algorithms with which the paper compares
"""
