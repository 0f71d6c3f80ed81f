"""A ledger whose states are vectors: the story of a run, and what it refuses."""

import contextlib
import json
import warnings

import numpy as np
import pytest

import lowswitch as ls
from ledgers import made as table_ledger
from ledgers import rewritten, steady
from lowswitch.features import ContextDriftWarning
from lowswitch.ledger import (
    ConflictError,
    ExpiredError,
    Ledger,
    LedgerError,
    import_csv,
    logged_cases,
    logged_episodes,
)
from lowswitch.ledger import snapshot as snapshots
from lowswitch.ledger.state import replayed
from lowswitch.ledger.text import proposal_table
from lowswitch.policy.shape import Shape

PROBLEMS = {
    "bandit": ls.features.problems.linear_bandit(features=3, actions=4, shared=True, seed=1),
    "MDP": ls.features.problems.linear_mdp(features=3, states=6, actions=3, horizon=3, seed=1),
}
BANDIT = PROBLEMS["bandit"]
EPISODES = 60


def declared(problem, **options):
    """The declaration of a run on a problem, for a learner and for a ledger."""
    return {**problem.shape._asdict(), "episodes": EPISODES, "seed": 7, **options}


def made(address, problem=BANDIT, algorithm=None, **options):
    """A ledger of few deployments whose tickets are the same in every run."""
    algorithm = algorithm or ls.few(deployments=5)
    return steady(Ledger.create(address, algorithm, **declared(problem, rewards=(-9, 9)) | options))


def played(problem, issued):
    """What comes of a ticket: contexts, actions and rewards."""
    episode = problem.play(issued.policy, 0, issued.number - 1, issued.number)
    contexts = episode.x[0, :, 0] if problem.shape.shared else episode.x[0]
    return contexts, episode.actions[0], episode.rewards[0]


def play(ledger, episodes, problem=BANDIT, decide=None):
    for _ in range(episodes):
        issued = ledger.ask("here", f"r{ledger.status().issued + 1}")
        ledger.tell(issued.ticket, *played(problem, issued))
        if decide is not None and (proposal := ledger.proposal()) is not None:
            decide(ledger, proposal)


def approve(ledger, proposal):
    ledger.approve(proposal, by="board", reason="seen")


def learner_of(ledger):
    return ledger._ready().learner


# ---- the story -----------------------------------------------------------------------------------


class Outside:
    """A learner without a ledger, which is told the same episodes in the order of the tickets."""

    def __init__(self, problem):
        size = declared(problem, gate="review")
        self.learner = ls.Learner(ls.few(deployments=5), **size)
        self.settled, self.next = {}, 1

    def settle(self, number, report):
        """Learn what has its turn; the report of a ticket that is missing is None."""
        self.settled[number] = report
        while self.next in self.settled:
            if (found := self.settled.pop(self.next)) is not None:
                self.learner.tell(*found, off_policy=True)
            self.next += 1


def decide(ledger, learner, proposal):
    """The second and the fourth proposal are rejected, the others approved, by both."""
    assert proposal.rows[0]["identity"] == learner.proposal().policy.identity
    if learner_of(ledger).proposed % 2:
        learner.approve()
        assert ledger.approve(proposal, by="board", reason="seen") == ledger.version
        assert ledger.policy.identity == learner.policy.identity
    else:
        learner.reject()
        ledger.reject(proposal, by="board", reason="more data first")


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_run_from_its_first_ticket_to_its_audit(problem, tmp_path):
    """Reports come late, twice, changed and never; a learner outside agrees to the bit."""
    ledger, outside, late = made(tmp_path / "a.db", problem), Outside(problem), {}
    for k in range(1, EPISODES + 1):
        issued = ledger.ask("here", f"r{k}")
        assert ledger.ask("here", f"r{k}") == issued  # the same request gets the same ticket
        report = contexts, actions, rewards = played(problem, issued)
        choices = [issued.act(x, step) for step, x in enumerate(contexts)]
        assert [choice.action for choice in choices] == actions.tolist()
        if k % 6 == 0:
            late[k + 4] = issued.ticket, k, report
        elif k % 11 == 0:
            ledger.missing(issued.ticket, "moved away", by="office")
            outside.settle(k, None)
            with pytest.raises(ExpiredError, match="the trial office can enter it"):
                ledger.tell(issued.ticket, *report)
        else:
            told = ledger.tell(issued.ticket, contexts, None if k % 2 else actions, rewards)
            outside.settle(k, report)
            assert ledger.tell(issued.ticket, *report) == told  # a second time
            with pytest.raises(ConflictError):
                ledger.tell(issued.ticket, contexts, actions, rewards + 0.5)
        if k in late:
            ticket, number, report = late.pop(k)
            ledger.tell(ticket, *report)
            outside.settle(number, report)
        assert learner_of(ledger).digest() == outside.learner.digest()
        if (proposal := ledger.proposal()) is not None:
            decide(ledger, outside.learner, proposal)
    status = ledger.status()
    assert (status.version, status.proposed, status.refused, status.open) == (4, 5, 5, 1)
    assert status.balanced
    assert learner_of(ledger).to_bytes() == outside.learner.to_bytes()
    assert ledger.verify().whole
    again = Ledger.open(tmp_path / "a.db", read_only=True)
    assert learner_of(again).to_bytes() == outside.learner.to_bytes()
    kinds = ["created", "approved", "approved", "approved"]
    assert [version.kind for version in again.versions()] == kinds


def test_a_proposal_says_what_would_change_and_what_is_expected_of_it(tmp_path):
    """The evidence is counted anew from the contexts that were told, one by one."""
    ledger, contexts, actions = made(tmp_path / "a.db"), [], []
    while (proposal := ledger.proposal()) is None:
        issued = ledger.ask("here", f"r{len(contexts)}")
        report = played(BANDIT, issued)
        ledger.tell(issued.ticket, *report)
        contexts.append(report[0][0])
        actions.append(report[1][0])
    ((row,),) = [proposal.rows]
    (step,) = row["steps"]
    assert step["visits"] == {str(a): actions.count(a) for a in range(4)}
    assert step["contexts"] == len(contexts) == proposal.told == 5
    learner = learner_of(ledger)
    weights = learner.weights[0]  # [A, d]
    middle = learner.offsets[0] + learner.intercepts[0]  # [A]
    for policy, side in (
        (ledger.policy, step["now"]),
        (learner_of(ledger).proposal().policy, step["proposed"]),
    ):
        law, expected = np.zeros(4), 0.0
        for x in contexts:
            for action in policy.choices(np.array(x)[None, None])[0]:
                law[action] += 1 / (policy.members * len(contexts))
                mean = float(weights[action] @ x + middle[action])
                expected += mean / (policy.members * len(contexts))
        assert side["law"] == pytest.approx({str(a): law[a] for a in range(4) if law[a]})
        assert side["estimate"] == pytest.approx(expected, abs=1e-8)
    assert row["changed"] == pytest.approx(step["changed"])
    assert "verdict" not in row
    json.dumps(vars(proposal))
    text = proposal_table(proposal)
    assert row["regions"][0]["where"] in text
    assert f"The usual action changes in {row['usual_changes']:.0%} of the newest cases." in text


def test_the_evidence_is_of_what_was_learned_when_the_proposal_became_due(tmp_path):
    """A late report lets seven be learned at once, and the first date is after five."""
    ledger = made(tmp_path / "a.db")
    late = ledger.ask("here", "late")
    play(ledger, 6)
    ledger.tell(late.ticket, *played(BANDIT, late))
    proposal = ledger.proposal()
    (step,) = proposal.rows[0]["steps"]
    assert (proposal.told, proposal.learned, proposal.through) == (5, 5, 5)
    assert (step["contexts"], sum(step["visits"].values())) == (5, 5)
    assert ledger.status().told == 7
    again = made(tmp_path / "b.db")
    play(again, 5)
    assert again.proposal().rows == proposal.rows


def test_a_proposal_before_the_first_case_has_no_kinds_of_cases(tmp_path):
    ledger = made(tmp_path / "a.db", policy=always(2), algorithm=ls.few(deployments=9, asked=True))
    proposal = ledger.propose(by="secretary")
    assert (proposal.worth, proposal.models) == (None, 0)
    assert "regions" not in proposal.rows[0]
    assert "too favourable" in proposal_table(proposal)
    assert ledger.verify().whole


# ---- reading it back -----------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_snapshot_and_a_replay_lead_to_the_same_learner(problem, tmp_path):
    ledger = made(tmp_path / "a.db", problem)
    play(ledger, 20, problem, decide=approve)
    while ledger.proposal() is None:
        play(ledger, 1, problem)
    ledger.ask("here", "open")
    issued = ledger.ask("here", "waits")
    ledger.tell(issued.ticket, *played(problem, issued))
    ledger.save_snapshot()
    again = Ledger.open(tmp_path / "a.db", read_only=True)
    loaded = again._loaded()
    assert loaded.seq == ledger.status().events - 1  # the event after it vouches for it
    straight = replayed(ledger.events(), ledger._corrections)
    assert loaded.learner.to_bytes() == straight.learner.to_bytes()
    assert snapshots.snapshot_of(loaded).learner == straight.learner.to_bytes()
    assert [one.identity for one in loaded.versions] == [one.identity for one in straight.versions]
    approve(again_to_write := steady(Ledger.open(tmp_path / "a.db")), again.proposal())
    assert again_to_write.policy.identity == learner_of(again_to_write).policy.identity
    assert again_to_write.verify().whole


def raised(payload):
    payload["states"][0][1] += 0.001


def shortened(payload):
    payload["states"][0].pop()


def other_action(payload):
    payload["actions"] = [99]


def test_verify_names_a_changed_vector(tmp_path):
    ledger, path = made(tmp_path / "a.db"), tmp_path / "a.db"
    play(ledger, 20, decide=approve)
    events = list(ledger.events())
    told = [one for one in events if one.kind == "told"][2]
    shown = repr(told.payload["states"][0][1])
    with contextlib.closing(Ledger.open(path)) as editor, editor.store.transaction():
        sql = "UPDATE events SET body = replace(body, ?, ?) WHERE seq = ?"
        editor.store.execute(sql, shown, shown[:-1] + "77", told.seq)
    found = Ledger.open(path, read_only=True).verify()
    assert (found.whole, found.first_bad) == (False, told.seq)
    assert found.what == f"event {told.seq}: its hash does not match its text"


@pytest.mark.parametrize("change", [raised, shortened, other_action])
def test_verify_names_a_changed_vector_also_if_the_chain_is_made_anew(change, tmp_path):
    ledger, path = made(tmp_path / "a.db"), tmp_path / "a.db"
    play(ledger, 20, decide=approve)
    told, *_ = [one.seq for one in ledger.events() if one.kind == "told"]
    proposed, *_ = [one.seq for one in ledger.events() if one.kind == "proposed"]
    rewritten(path, told, change)
    found = Ledger.open(path, read_only=True).verify()
    bad = proposed if change is raised else told
    assert (found.whole, found.first_bad) == (False, bad)
    assert "another proposal was to be recorded" in found.what or change is not raised


def test_an_export_holds_the_vectors_to_the_bit(tmp_path):
    ledger = made(tmp_path / "a.db")
    issued = ledger.ask("here", "r1")
    vector = [1 / 3, -0.0, 1e-300]
    ledger.tell(issued.ticket, vector, 2, 0.1 + 0.2)
    ledger.export(tmp_path / "all.jsonl")
    last = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[-1])["payload"]
    assert np.array(last["states"]).tobytes() == np.array([vector]).tobytes()
    assert (last["actions"], last["rewards"]) == ([2], [0.1 + 0.2])


# ---- decisions -----------------------------------------------------------------------------------


def always(action):
    """A policy of the bandit that plays one action: that with the only weights that are not 0."""
    weights = np.zeros((1, 3, 4, 1))
    allowed = np.arange(4)[None] == action
    return ls.LinearPolicy(BANDIT.shape, weights, np.uint64(0), allowed=allowed)


def test_after_a_veto_the_policy_of_the_beginning_can_still_be_put_back(tmp_path):
    """It gives one action to everybody, so it does not give a forbidden one."""
    policy = ls.LinearPolicy.always(1, features=3, actions=4)
    algorithm = ls.few(deployments=3, asked=True, trial=0.5)
    ledger = made(tmp_path / "a.db", algorithm=algorithm, policy=policy)
    generator = np.random.default_rng(3)
    for k in range(30):
        issued, x = ledger.ask("here", f"r{k}"), generator.normal(size=3)
        ledger.tell(issued.ticket, x, None, float(x[0] > 0))
    ledger.approve(ledger.propose(by="office"), by="board", reason="a trial")
    ledger.forbid(None, [3], by="board", reason="broken")
    ledger.rollback(1, by="office", reason="back to the usual action")
    x = generator.normal(size=(40, 3))
    assert ledger.policy.propensities(x).tolist() == [[0.0, 1.0, 0.0, 0.0]] * 40
    ledger.forbid(None, [2], by="board", reason="broken, too")
    with pytest.raises(LedgerError, match="version 2 gives actions that were forbidden"):
        ledger.rollback(2, by="office", reason="no")


def test_a_veto_forbids_the_new_actions_and_a_rollback_asks_for_them(tmp_path):
    ledger = made(tmp_path / "a.db", policy=always(2), algorithm=ls.few(deployments=9, asked=True))
    assert ledger.ask("here", "first").act([0.1, 0.2, 0.3]) == (2, 1.0)
    ledger.missing("t1", "to begin with", by="office")
    play(ledger, 6)
    first = ledger.propose(by="secretary")
    approve(ledger, first)
    play(ledger, 6)
    assert ledger.rollback(1, by="chief", reason="complaints") == 3
    play(ledger, 4)
    second = ledger.propose(by="secretary")
    new = second.rows[0]["new_actions"]
    assert new
    assert [h for h, _ in new] == ["0"] * len(new)
    ledger.reject(second, by="pharmacy", reason="interaction", forever=True)
    allowed = ledger.actions_allowed
    assert allowed.tolist() == [[str(a) not in [b for _, b in new] for a in range(4)]]
    with pytest.raises(LedgerError, match="version 2 gives actions that were forbidden since"):
        ledger.rollback(2, by="chief", reason="back")
    play(ledger, 6)
    approve(ledger, ledger.propose(by="secretary"))
    assert (ledger.policy.allowed == allowed).all()
    assert ledger.verify().whole


def test_an_amended_vector_makes_the_learner_what_it_would_be(tmp_path):
    """The board's approvals stay, of what it saw, and the sums are those of the right reports."""
    right, wrong = made(tmp_path / "right.db"), made(tmp_path / "wrong.db")
    for ledger in (right, wrong):
        for k in range(1, 31):
            issued = ledger.ask("here", f"r{k}")
            report = contexts, actions, rewards = played(BANDIT, issued)
            if k == 20:
                correct = report
                report = (contexts + (ledger is wrong), actions, rewards)
            ledger.tell(issued.ticket, *report)
            if k == 13:
                approve(ledger, ledger.proposal())
    wrong.amend("t20", *correct, by="nurse", reason="a wrong unit")
    assert (learner_of(wrong).precision == learner_of(right).precision).all()
    assert (learner_of(wrong).weights == learner_of(right).weights).all()
    assert wrong.policy_of(2).identity == right.policy_of(2).identity
    assert wrong.verify().whole
    again = Ledger.open(tmp_path / "wrong.db", read_only=True)
    assert learner_of(again).to_bytes() == learner_of(wrong).to_bytes()


def test_an_open_gate_records_each_deployment(tmp_path):
    ledger = made(tmp_path / "a.db", gate="open")
    outside = ls.Learner(ls.few(deployments=5), **declared(BANDIT))
    for k in range(1, 41):
        issued = ledger.ask("here", f"r{k}")
        report = played(BANDIT, issued)
        ledger.tell(issued.ticket, *report)
        outside.tell(*report)
        assert ledger.policy.identity == outside.policy.identity
    changes = [one.payload["changes"] for one in ledger.events() if one.kind == "deployed"]
    assert len(changes) == outside.deployments == ledger.version - 1 > 2
    assert changes[-1][0][1] == outside.policy.identity
    contexts, actions, rewards = played(BANDIT, issued)
    ledger.amend("t3", contexts, actions, rewards, by="nurse", reason="a wrong file")
    assert ledger.policy.identity == learner_of(ledger).policy.identity
    assert ledger.verify().whole


def test_a_frozen_run_takes_nothing_and_goes_on_when_it_is_thawed(tmp_path):
    ledger = made(tmp_path / "a.db")
    play(ledger, 4)
    issued = ledger.ask("here", "r5")
    ledger.freeze(by="chief", reason="alarm")
    with pytest.raises(LedgerError, match="chief paused this run on .* \\('alarm'\\)"):
        ledger.tell(issued.ticket, *played(BANDIT, issued))
    ledger.thaw(by="chief", reason="over")
    ledger.tell(issued.ticket, *played(BANDIT, issued))
    assert ledger.proposal().told == 5


def test_an_episode_that_is_over_early_is_terminated(tmp_path):
    problem = PROBLEMS["MDP"]
    ledger, outside = made(tmp_path / "a.db", problem), Outside(problem)
    for k in range(1, 5):
        issued = ledger.ask("here", f"r{k}")
        contexts, actions, rewards = (part.copy() for part in played(problem, issued))
        ledger.tell(issued.ticket, contexts[:2], actions[:2], rewards[:2], ended="terminated")
        contexts[2], actions[2], rewards[2] = 0, -1, 0
        outside.settle(k, (contexts, actions, rewards))
    assert learner_of(ledger).to_bytes() == outside.learner.to_bytes()


# ---- what is refused -----------------------------------------------------------------------------

X = [0.1, 0.2, 0.3]
REPORTS = [
    (([0.1, 0.2], 0, 1.0), r"^the features .* a vector of 3 numbers, not \(2,\)"),
    (([0.1, float("nan"), 0.3], 0, 1.0), "^feature 1 is NaN; fill in missing"),
    (([0.1, 1e60, 0.3], 0, 1.0), r"feature 1 is 1e\+60; it must be finite"),
    ((["a", "b", "c"], 0, 1.0), "features"),
    ((None, 0, 1.0), "features"),
    ((X, 4, 1.0), "there is no action 4; the actions are 0, 1, 2, 3, or 0 to 3"),
    ((X, "drug", 1.0), "there is no action 'drug'"),
    ((X, 0, 12.0), r"the reward 12.0 is outside of the declared range \[-9, 9\]"),
    ((X, 0, float("nan")), "the reward nan is outside"),
    ((X, 0, None), "the reward None is outside"),
    ((X, 0, "1"), "rewards must be a list, one for each step, not '1'"),
    (
        ([X, X], [0, 1], [1.0, 1.0]),
        "2 contexts, 2 actions and 2 rewards are not an episode of 1 steps",
    ),
    (([X], [0, 1], [1.0]), "1 contexts, 2 actions and 1 rewards are not an episode"),
    (([], [], []), "0 steps are no whole episode of 1"),
]


@pytest.mark.parametrize(("report", "says"), REPORTS, ids=[says[:30] for _, says in REPORTS])
def test_a_bad_report_is_refused_with_its_value_and_the_ticket_stays_open(report, says, tmp_path):
    ledger = made(tmp_path / "a.db")
    issued = ledger.ask("here", "r1")
    with pytest.raises(LedgerError, match=says):
        ledger.tell(issued.ticket, *report)
    assert ledger.status().open == 1
    (answer,) = ledger.tell_many(
        [
            dict(
                zip(
                    ("ticket", "states", "actions", "rewards"),
                    (issued.ticket, *report),
                    strict=True,
                )
            )
        ]
    )
    assert isinstance(answer, LedgerError)  # which keeps no other report of a batch out
    ledger.tell(issued.ticket, X, None, 1)
    assert ledger.status().learned == 1


def test_an_episode_that_was_not_seen_to_its_end_is_refused_with_the_way_out(tmp_path):
    problem = PROBLEMS["MDP"]
    ledger = made(tmp_path / "a.db", problem)
    issued = ledger.ask("here", "r1")
    contexts, actions, rewards = played(problem, issued)
    with pytest.raises(LedgerError, match="2 of 3 steps were seen.* declare its ticket missing"):
        ledger.tell(issued.ticket, contexts[:2], actions[:2], rewards[:2], ended="truncated")
    with pytest.raises(LedgerError, match="2 steps are no whole episode of 3"):
        ledger.tell(issued.ticket, contexts[:2], actions[:2], rewards[:2])
    ledger.missing(issued.ticket, "lost", by="office")
    assert ledger.status().missing == 1


DECLARATIONS = [
    ({"features": None}, "give states=S for tables, or features=d"),
    ({"states": 4}, "give states=S for tables, or features=d"),
    ({"features": 0}, "features must be .*0"),
    ({"features": ["age", "age", "dose"]}, "features must be different texts"),
    ({"missing": "optimistic"}, 'declare "drop" or "hold"'),
    ({"absorbing": 1}, "absorbing= applies to tables"),
    ({"actions_allowed": [[True]]}, "actions_allowed= applies to tables"),
    ({"policy": np.zeros((1, 3), dtype=int)}, "is a LinearPolicy, not ndarray"),
    ({"policy": ls.Learner(ls.linear(), features=2, actions=4, episodes=9).policy}, "LinearPolicy"),
    ({"algorithm": ls.psrl()}, "use ls.linear, ls.linucb or ls.few"),
    (
        {"algorithm": ls.few(deployments=4, trial=0.25)},
        "trial=0.25 needs a protocol: with features, give the policy",
    ),
    ({"rewards": (1, 0)}, r"rewards must be a range such as \(0, 1\), not \(1, 0\)"),
]


@pytest.mark.parametrize(("options", "says"), DECLARATIONS, ids=[says for _, says in DECLARATIONS])
def test_a_bad_declaration_is_refused_and_leaves_no_file(options, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        made(tmp_path / "a.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_tables_have_no_shared_features(tmp_path):
    with pytest.raises(LedgerError, match="shared=False applies to features"):
        table_ledger(tmp_path / "a.db", shared=False)


def test_a_decision_on_rows_is_refused(tmp_path):
    ledger = made(tmp_path / "a.db")
    play(ledger, 5)
    proposal = ledger.proposal()
    with pytest.raises(LedgerError, match="decided on as a whole; leave rows out"):
        ledger.approve(proposal, rows=[(0, 0)], by="board", reason="one row")
    with pytest.raises(LedgerError, match="visits=3 says how long a row of a table is held"):
        ledger.reject(proposal, visits=3, by="board", reason="later")
    assert proposal.rows[0]["new_actions"] == []
    with pytest.raises(LedgerError, match="there is no new action to forbid"):
        ledger.reject(proposal, forever=True, by="board", reason="never")
    approve(ledger, proposal)
    with pytest.raises(LedgerError, match="board approved it, or a part of it"):
        approve(ledger, proposal)


def test_what_needs_a_table_of_states_is_refused_in_words(tmp_path):
    ledger = made(tmp_path / "a.db")
    (tmp_path / "old.csv").write_text("episode,step,state,action,reward\n")
    who = {"by": "office", "attested": "by protocol"}
    refused = "a run with features, and this needs a table of states"
    with pytest.raises(LedgerError, match=refused):
        ledger.chart()
    with pytest.raises(LedgerError, match=refused):
        ledger.row(0, 0)
    with pytest.raises(LedgerError, match=refused):
        import_csv(ledger, tmp_path / "old.csv", most=9, **who)
    with pytest.raises(LedgerError, match="can be learned by tables only so far"):
        ledger.add_history([[X]], [[0]], [[1.0]], source="old", most=9, **who)


def test_an_older_version_refuses_the_ledger(tmp_path):
    """The first event says a format that it does not know."""
    assert next(made(tmp_path / "a.db").events()).payload["format"] == 4
    assert next(table_ledger(tmp_path / "b.db").events()).payload["format"] == 4


def test_the_shape_of_a_policy_is_kept_by_its_record():
    policy = ls.Learner(ls.linucb(), features=2, actions=3, episodes=9, shared=False).policy
    again = ls.LinearPolicy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert (again.identity, again.shape) == (policy.identity, Shape.of(1, 2, 3, False))


def test_a_ledger_records_that_contexts_moved(tmp_path):
    """The proposal after it says so, also once it is read again; a learner outside agrees."""
    size = {"features": 2, "actions": 2, "episodes": 200, "seed": 3}
    declared = {**size, "horizon": 1, "rewards": (-9, 9)}
    ledger = Ledger.create(tmp_path / "run.db", ls.few(deployments=6), **declared)
    outside = ls.Learner(ls.few(deployments=6), **size, gate="review")
    generator, found = np.random.default_rng(1), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContextDriftWarning)
        for number in range(94):
            issued, x = ledger.ask("here", f"r{number}"), generator.normal(size=2)
            x = (x + 4.0 * (number >= 60)).clip(-9, 9)
            choice = issued.act(x)
            paid = float(x[choice.action].clip(-9, 9))
            ledger.tell(issued.ticket, x, choice.action, paid)
            outside.tell(x, choice.action, paid, off_policy=True)
            if (view := ledger.proposal()) is not None:
                found.append((view.rows[0].get("drift", 0), outside.proposal().drift))
                again = ledger.terms.proposals.read(ledger._ready().pending)
                assert again.hash == outside.proposal().hash
                ledger.approve(view, by="board", reason="minutes")
                outside.approve()
    assert found[0] == (0, 0)
    assert found[-1] == (93, 93)
    assert ledger._ready().learner.digest() == outside.digest()
    assert ledger.verify().whole


def test_a_policy_is_evaluated_on_the_cases_that_a_ledger_logged(tmp_path):
    """Reports hold vector, action, reward and propensity, and a correction counts as corrected."""
    told = dict[int, tuple]()
    with made(tmp_path / "run.db") as ledger:
        for number in range(1, 41):
            issued = ledger.ask("here", f"r{number}")
            x, actions, rewards = played(BANDIT, issued)
            chance = issued.policy.propensities(x)[0][actions[0]]
            told[number] = *x[0], actions[0], rewards[0], chance
            ledger.tell(issued.ticket, x, actions, rewards)
            if (proposal := ledger.proposal()) is not None:
                approve(ledger, proposal)
        log = logged_cases(ledger, after=10)
        rows = np.column_stack([log.contexts, log.actions, log.rewards, log.propensities])
        assert rows.tolist() == [[float(one) for one in told[n]] for n in range(11, 41)]
        assert np.isfinite(ls.evaluate(ledger.policy, log).dr.low)
        with pytest.raises(LedgerError, match="logged_cases reads its reports"):
            logged_episodes(ledger)
        with pytest.raises(LedgerError, match="no whole reports"):
            logged_cases(ledger, after=40)
        ledger.forbid(None, [3], by="board", reason="worn")
        issued = ledger.ask("here", "against the veto")
        x, _, rewards = played(BANDIT, issued)
        ledger.tell(issued.ticket, x, [3], rewards)
        with pytest.raises(LedgerError, match="its ticket did not give"):
            logged_cases(ledger, after=40)
        log = logged_cases(ledger, after=10)
        assert (len(log.actions), log.left_out) == (30, 1)
        assert np.isfinite(ls.evaluate(ledger.policy, log).dr.low)
    with (
        made(tmp_path / "long.db", PROBLEMS["MDP"]) as ledger,
        pytest.raises(LedgerError, match="one step, and these episodes have 3"),
    ):
        logged_cases(ledger)


def test_a_plan_in_units_of_the_noise_is_no_forecast_of_a_run(tmp_path):
    class Plan:
        def expected(self):
            return [[0, -0.1, 0.0, 0.1]]

    with pytest.raises(LedgerError, match="in which noise is 1; give the forecast as lines"):
        made(tmp_path / "run.db", forecast=Plan())
    with made(tmp_path / "run.db", forecast=[(0, -0.1, 0.0, 0.1)]) as ledger:
        assert ledger.terms.forecast[0].high == 0.1
