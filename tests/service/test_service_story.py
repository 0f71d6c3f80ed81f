"""Ten meetings of a board in a real Chromium, once with the mouse and once by keyboard alone."""

import numpy as np
import pytest

import browser
import lowswitch as ls
from lowswitch.ledger import ConflictError
from served import Served

chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
CHANCE = 0.2 + 0.5 * np.random.default_rng(1).random((6, 3))  # of success: [finding, treatment]
STUDY = {
    "algorithm": ls.few(deployments=20, asked=True, trial=0.25, members=8),
    "horizon": 2,
    "states": ["well", "ill", "bad", "worse", "old", "new"],
    "actions": ["watch", "drug", "surgery"],
    "steps": ["visit 1", "visit 2"],
    "words": {"episode": "patient", "step": "visit", "state": "finding", "action": "treatment"},
    "name": "Ward 3",
    "policy": CHANCE.argmin(axis=1)[None].repeat(2, axis=0),
    "episodes": 2000,
    "quorum": 2,
}


class Board:
    """The people of a study, in one tab, each with a token."""

    def __init__(self, served, tab):
        self.served, self.tab, self.ledger = served, tab, served.ledger
        self.generator, self.who = np.random.default_rng(3), None
        served.tokens["second"] = served.access.create(name="Dr Roth", role="reviewer", days=1)

    def treat(self, patients=40, *, lose=0):
        """Patients of a month; their reports come twice, and some never."""
        for i in range(patients):
            name = f"patient {self.ledger.status().issued + 1}"
            issued = self.ledger.ask("north", name)
            states = self.generator.integers(0, 6, 2)
            actions = np.array(issued.policy)[[0, 1], states]
            rewards = (self.generator.random(2) < CHANCE[states, actions]).astype(float)
            if i >= lose:
                for _ in range(2):  # which counts once
                    self.ledger.tell(issued.ticket, states, actions, rewards)

    def history(self, patients=80):
        """Records of an earlier protocol, from which much can be learned."""
        states, actions = (self.generator.integers(0, n, (patients, 2)) for n in (6, 3))
        rewards = (self.generator.random((patients, 2)) < CHANCE[states, actions]).astype(float)
        how = {"source": "records", "most": patients, "by": "office", "attested": "by finding"}
        self.ledger.add_history(states.tolist(), actions.tolist(), rewards.tolist(), **how)

    def be(self, role):
        """Log in as somebody, unless that is who is logged in."""
        if self.who != role:
            self.tab.send("Network.clearBrowserCookies")
            self.tab.open(f"{self.served.url}/login")
            self.tab.type("#token", self.served.tokens[role])
            self.tab.click("main button", leaves=True)
            self.who = role

    def go(self, path):
        self.tab.open(f"{self.served.url}{path}")

    def press(self, selector):
        self.tab.click(selector, leaves=True)

    def confirm(self, reason):
        """Give a reason on the page that says what will happen, and press its button."""
        before = self.ledger.status().head
        assert "Nothing has happened yet" in self.tab.text
        if self.tab.evaluate("!!document.querySelector('.sign input[name=reason]')"):
            self.tab.type(".sign input[name=reason]", reason)
        self.press(".sign button[name=sure]")
        assert self.ledger.status().head != before, self.tab.text

    def ask(self):
        self.be("operator")
        self.go("/proposal")
        self.press("form[action='/propose'] button")
        self.confirm("the board meets")
        assert self.ledger.proposal() is not None

    def choose(self, decision, *ticks):
        self.be("reviewer")
        self.go("/proposal")
        for tick in ticks:
            self.tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            self.tab.click(f"input[name=row][value='{tick}']")
        self.tab.evaluate(f"document.querySelector('[name=decision]').value = '{decision}'")
        self.press(".bar button")

    def agree(self, role="second"):
        self.be(role)
        self.go("/")
        self.press("form[action='/confirm'] button")
        said = self.tab.text
        self.confirm("I agree")
        return said

    def changes(self):
        """The rows in which the pending proposal changes the protocol."""
        rows = self.ledger.proposal().rows
        return [f"{one['step']}:{one['state']}" for one in rows if one["from"][0] != one["to"][0]]


@chromium
def test_ten_meetings_in_a_browser(tab, tmp_path):
    with Served(tmp_path, **STUDY) as served:
        board, ledger = Board(served, tab), served.ledger

        board.history()  # 1: the trial alone, capped, by two reviewers
        board.be("reviewer")
        board.go("/proposal")
        tab.type("input[name=share]", "13")
        tab.evaluate("document.querySelector('[name=decision]').value = 'approve trial'")
        board.press(".bar button")
        assert "The protocol stays as it is" in tab.text
        board.confirm("minutes 1")
        assert ledger.version == 1
        assert "takes effect at once" in board.agree()
        assert ledger.version == 2
        assert ledger.newest(1, kind="approved")[0].payload["share"] == 0.13

        board.treat()  # 2: one change is approved, and one is postponed, by one reviewer
        board.ask()
        first, second, *_ = board.changes()
        board.choose("postpone selected", first)
        assert "Postpone 1 change?" in tab.text
        board.confirm("more data first")
        assert ledger.newest(1, kind="rejected")[0].actor == "the reviewer"
        board.choose("approve selected", second)
        assert "Approve 1 change?" in tab.text
        board.confirm("minutes 2")
        board.agree()
        assert len(ledger.newest(1, kind="approved")[0].payload["rows"]) == 1

        board.treat()  # 3: the protocol alone
        board.ask()
        board.choose("approve protocol")
        board.confirm("minutes 3")
        board.agree()
        assert ledger.newest(1, kind="approved")[0].payload["part"] == "protocol"

        board.treat()  # 4: a veto that names its treatment, where it is in use
        board.be("reviewer")
        board.go("/forbid?rows=0:1")
        played = ledger.terms.labels["action"][ledger.policy[0, 0, 1]]
        other = next(name for name in STUDY["actions"] if name != played)
        tab.click(f"input[name=action][value='{played}']")
        board.press("form[action='/forbid'] button.stop")
        assert "choose what to give instead" in tab.text
        assert tab.evaluate("document.querySelectorAll(':checked[name=action]').length") == 1
        tab.evaluate(f"document.querySelector('[name=instead]').value = '{other}'")
        board.press("form[action='/forbid'] button.stop")
        assert f"Forbid {played} for ill, visit 1, and give" in tab.text
        board.confirm("adverse events")
        board.agree()
        assert ledger.terms.labels["action"][ledger.policy[0, 0, 1]] == other

        board.treat(30, lose=3)  # 5: reports are missing, and the page says so first
        board.be("operator")
        board.go("/proposal")
        if ledger.proposal() is None:
            board.press("form[action='/propose'] button")
            assert "Ask for a proposal without 30 reports?" in tab.text
        board.go("/tickets?select=all")
        board.press(".bar button")
        assert "Declare 3 reports missing?" in tab.text
        board.confirm("lost to follow-up")
        assert (ledger.status().missing, ledger.status().waiting) == (3, 0)
        late = ledger.list_tickets("missing")[0]  # one of them comes after all
        board.go(f"/amend?ticket={late.ticket}")
        for i, name in enumerate(("state", "action", "reward")):
            for j in (1, 2):
                selector = f"tbody tr:nth-child({j}) input[name={name}]"
                tab.type(selector, ("well", "watch", "1")[i])
        board.press("form[action='/amend'] button:not(.enter)")
        board.confirm("it came late")
        assert ledger.status().missing == 2
        double = ledger.list_tickets("learned")[0].ticket  # and one came twice, differently
        report = ledger.report_of(double)[1] | {"ended": "truncated"}
        with pytest.raises(ConflictError):
            ledger.tell(double, **report)
        board.go("/tickets")
        assert "Contradicting reports" in tab.text
        board.press("form[action='/dismiss'] button")
        board.confirm("the site confirmed the first")
        assert "Contradicting reports" not in tab.text

        board.ask()  # 6: a request that the other reviewer turns down
        board.choose("approve all")
        board.confirm("minutes 6")
        board.be("second")
        board.go("/proposal")
        board.press("form[action='/decline'] button")
        board.confirm("not convinced")
        assert ledger.motions() == []

        board.be("operator")  # 7: an alarm; pausing takes one person, resuming three
        board.go("/")
        tab.type("form[action='/freeze'] input[name=reason]", "two adverse events")
        board.press("form[action='/freeze'] button.stop")
        assert "PAUSED by the operator" in tab.text
        board.go("/timeline")
        board.press("form[action='/rollback']:has([value='1']) button")
        assert "do what version 1 did" in tab.text
        board.confirm("until it is clear why")
        board.agree("reviewer")
        board.agree("second")
        assert ledger.newest(1, kind="rolled_back")[0].payload["to"] == 1
        board.be("operator")
        board.go("/")
        board.press("form[action='/thaw'] button")
        board.confirm("unrelated")
        board.agree("reviewer")
        board.agree("second")
        assert not ledger.status().frozen

        board.be("reviewer")  # 8: the veto is lifted
        board.go("/row?step=0&state=1")
        board.press("form[action='/lift'] button")
        board.confirm("new evidence")
        board.agree()
        assert ledger.actions_allowed.all()

        for number in (9, 10):
            board.treat()
            board.ask()
            board.choose("approve all")
            board.confirm(f"minutes {number}")
            board.agree()

        board.be("auditor")
        board.go("/audit?person=Roth")
        assert "agreement" in tab.text
        board.press("form[action='/verify'] button")
        assert "Nothing was altered" in tab.text
        board.go("/timeline")
        assert "allowed" in tab.text
        assert "minutes 10" in tab.text
        assert ledger.verify().whole
        assert tab.dialogs == []


@chromium
def test_a_decision_by_keyboard_alone(tab, tmp_path):
    with Served(tmp_path, **STUDY | {"quorum": 1}) as served:
        board, ledger = Board(served, tab), served.ledger
        board.treat()
        ledger.propose(by="office")

        def tab_to(test):
            for _ in range(80):
                tab.key("Tab", code=9)
                if tab.evaluate(f"(e => {test})(document.activeElement)"):
                    return
            raise AssertionError(test)

        tab.open(f"{served.url}/login")
        tab.send("Input.insertText", text=served.tokens["reviewer"])
        tab.key("Enter", code=13, text="\r", leaves=True)
        tab_to("e.matches('a.button[href=\"/proposal\"]')")
        tab.key("Enter", code=13, text="\r", leaves=True)
        tab_to("e.name === 'share'")
        tab.key("Enter", code=13, text="\r", leaves=True)  # and does not ask for a decision
        assert "Nothing was done yet" in tab.text
        tab_to("e.name === 'decision'")
        tab.key("ArrowDown", code=40)
        assert tab.evaluate("document.activeElement.value").startswith("approve")
        tab_to("e.matches('.bar button')")
        tab.key("Enter", code=13, text="\r", leaves=True)
        assert "Nothing has happened yet" in tab.text
        tab_to("e.name === 'reason'")
        tab.send("Input.insertText", text="minutes of 3 May")
        tab.key("Enter", code=13, text="\r", leaves=True)  # in a field, it decides nothing
        assert "Nothing was done yet" in tab.text
        assert ledger.version == 1
        assert tab.evaluate("document.querySelector('[name=reason]').value") == "minutes of 3 May"
        tab_to("e.name === 'sure'")
        tab.key("Enter", code=13, text="\r", leaves=True)
        assert "Version 2 is in use for new patients." in tab.text
        assert ledger.newest(1, kind="approved")[0].payload["reason"] == "minutes of 3 May"
