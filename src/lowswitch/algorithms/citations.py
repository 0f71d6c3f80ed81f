"""The papers that algorithms come from, as BibTeX.

An algorithm is cited by its parts, so a new combination of them needs no entry of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NEURIPS = "Advances in Neural Information Processing Systems"
ICML = "International Conference on Machine Learning"
ICLR = "International Conference on Learning Representations"
COLT = "Conference on Learning Theory"
JMLR = "Journal of Machine Learning Research"


class Paper(NamedTuple):
    """The fields of a BibTeX entry; empty fields are left out."""

    title: str
    author: str
    year: int
    booktitle: str = ""
    journal: str = ""
    volume: str = ""
    eprint: str = ""  # arXiv number

    @property
    def kind(self) -> str:
        """The type of the BibTeX entry."""
        if self.booktitle:
            return "inproceedings"
        return "article" if self.journal else "misc"

    def entry(self, key: str) -> str:
        """The BibTeX entry, one field per line."""
        fields = {name: str(value) for name, value in self._asdict().items() if value}
        if self.eprint:
            fields["archivePrefix"] = "arXiv"
        lines = [f"  {name:13} = {{{value}}}" for name, value in fields.items()]
        return f"@{self.kind}{{{key},\n" + ",\n".join(lines) + "\n}"


PAPERS = {
    "jin2018q": Paper(
        "Is {Q}-Learning Provably Efficient?",
        "Jin, Chi and Allen-Zhu, Zeyuan and Bubeck, S{\\'e}bastien and Jordan, Michael I.",
        2018,
        booktitle=NEURIPS,
        volume="31",
        eprint="1807.03765",
    ),
    "bai2019provably": Paper(
        "Provably Efficient {Q}-Learning with Low Switching Cost",
        "Bai, Yu and Xie, Tengyang and Jiang, Nan and Wang, Yu-Xiang",
        2019,
        booktitle=NEURIPS,
        volume="32",
        eprint="1905.12849",
    ),
    "zhang2020almost": Paper(
        "Almost Optimal Model-Free Reinforcement Learning via Reference-Advantage Decomposition",
        "Zhang, Zihan and Zhou, Yuan and Ji, Xiangyang",
        2020,
        booktitle=NEURIPS,
        volume="33",
        eprint="2004.10019",
    ),
    "li2021breaking": Paper(
        "Breaking the Sample Complexity Barrier to Regret-Optimal Model-Free Reinforcement"
        " Learning",
        "Li, Gen and Shi, Laixi and Chen, Yuxin and Gu, Yuantao and Chi, Yuejie",
        2021,
        booktitle=NEURIPS,
        volume="34",
        eprint="2110.04645",
    ),
    "tiapkin2023model": Paper(
        "Model-Free Posterior Sampling via Learning Rate Randomization",
        "Tiapkin, Daniil and Belomestny, Denis and Calandriello, Daniele and Moulines, {\\'E}ric"
        " and Munos, R{\\'e}mi and Naumov, Alexey and Perrault, Pierre and Valko, Michal and"
        " M{\\'e}nard, Pierre",
        2023,
        booktitle=NEURIPS,
        volume="36",
        eprint="2310.18186",
    ),
    "qiao2022sample": Paper(
        "Sample-Efficient Reinforcement Learning with loglog({T}) Switching Cost",
        "Qiao, Dan and Yin, Ming and Min, Ming and Wang, Yu-Xiang",
        2022,
        booktitle=ICML,
        volume="162",
        eprint="2202.06385",
    ),
    "zhang2022near": Paper(
        "Near-Optimal Regret Bounds for Multi-batch Reinforcement Learning",
        "Zhang, Zihan and Jiang, Yuhang and Zhou, Yuan and Ji, Xiangyang",
        2022,
        booktitle=NEURIPS,
        volume="35",
        eprint="2210.08238",
    ),
    "zheng2024federated": Paper(
        "Federated {Q}-Learning: Linear Regret Speedup with Low Communication Cost",
        "Zheng, Zhong and Gao, Fengyu and Xue, Lingzhou and Yang, Jing",
        2024,
        booktitle=ICLR,
        eprint="2312.15023",
    ),
    "zheng2025federated": Paper(
        "Federated {Q}-Learning with Reference-Advantage Decomposition: Almost Optimal Regret and"
        " Logarithmic Communication Cost",
        "Zheng, Zhong and Zhang, Haochen and Xue, Lingzhou",
        2025,
        booktitle=ICLR,
        eprint="2405.18795",
    ),
    "zhang2025regret": Paper(
        "Regret-Optimal {Q}-Learning with Low Cost for Single-Agent and Federated Reinforcement"
        " Learning",
        "Zhang, Haochen and Zheng, Zhong and Xue, Lingzhou",
        2025,
        booktitle=NEURIPS,
        eprint="2506.04626",
    ),
    "azar2017minimax": Paper(
        "Minimax Regret Bounds for Reinforcement Learning",
        "Azar, Mohammad Gheshlaghi and Osband, Ian and Munos, R{\\'e}mi",
        2017,
        booktitle=ICML,
        eprint="1703.05449",
    ),
    "zhang2024settling": Paper(
        "Settling the Sample Complexity of Online Reinforcement Learning",
        "Zhang, Zihan and Chen, Yuxin and Lee, Jason D. and Du, Simon S.",
        2024,
        booktitle=COLT,
        eprint="2307.13586",
    ),
    "zhang2021reinforcement": Paper(
        "Is Reinforcement Learning More Difficult Than Bandits? A Near-optimal Algorithm Escaping"
        " the Curse of Horizon",
        "Zhang, Zihan and Ji, Xiangyang and Du, Simon S.",
        2021,
        booktitle=COLT,
        eprint="2009.13503",
    ),
    "dann2019policy": Paper(
        "Policy Certificates: Towards Accountable Reinforcement Learning",
        "Dann, Christoph and Li, Lihong and Wei, Wei and Brunskill, Emma",
        2019,
        booktitle=ICML,
        eprint="1811.03056",
    ),
    "osband2013more": Paper(
        "(More) Efficient Reinforcement Learning via Posterior Sampling",
        "Osband, Ian and Russo, Daniel and Van Roy, Benjamin",
        2013,
        booktitle=NEURIPS,
        volume="26",
        eprint="1306.0940",
    ),
    "jaksch2010near": Paper(
        "Near-optimal Regret Bounds for Reinforcement Learning",
        "Jaksch, Thomas and Ortner, Ronald and Auer, Peter",
        2010,
        journal=JMLR,
        volume="11",
    ),
    "brafman2002rmax": Paper(
        "{R}-max -- A General Polynomial Time Algorithm for Near-Optimal Reinforcement Learning",
        "Brafman, Ronen I. and Tennenholtz, Moshe",
        2002,
        journal=JMLR,
        volume="3",
    ),
    "strehl2008analysis": Paper(
        "An Analysis of Model-Based Interval Estimation for {M}arkov Decision Processes",
        "Strehl, Alexander L. and Littman, Michael L.",
        2008,
        journal="Journal of Computer and System Sciences",
        volume="74",
    ),
    "guo2015concurrent": Paper(
        "Concurrent {PAC} {RL}",
        "Guo, Zhaohan and Brunskill, Emma",
        2015,
        booktitle="AAAI Conference on Artificial Intelligence",
        volume="29",
    ),
    "osband2016generalization": Paper(
        "Generalization and Exploration via Randomized Value Functions",
        "Osband, Ian and Van Roy, Benjamin and Wen, Zheng",
        2016,
        booktitle=ICML,
        eprint="1402.0635",
    ),
    "gao2019batched": Paper(
        "Batched Multi-armed Bandits Problem",
        "Gao, Zijun and Han, Yanjun and Ren, Zhimei and Zhou, Zhengqing",
        2019,
        booktitle=NEURIPS,
        volume="32",
        eprint="1904.01763",
    ),
    "li2010contextual": Paper(
        "A Contextual-Bandit Approach to Personalized News Article Recommendation",
        "Li, Lihong and Chu, Wei and Langford, John and Schapire, Robert E.",
        2010,
        booktitle="International Conference on World Wide Web",
        eprint="1003.0146",
    ),
    "abbasi2011improved": Paper(
        "Improved Algorithms for Linear Stochastic Bandits",
        "Abbasi-Yadkori, Yasin and P{\\'a}l, D{\\'a}vid and Szepesv{\\'a}ri, Csaba",
        2011,
        booktitle=NEURIPS,
        volume="24",
    ),
    "jin2020provably": Paper(
        "Provably Efficient Reinforcement Learning with Linear Function Approximation",
        "Jin, Chi and Yang, Zhuoran and Wang, Zhaoran and Jordan, Michael I.",
        2020,
        booktitle=COLT,
        eprint="1907.05388",
    ),
    "gao2021provably": Paper(
        "A Provably Efficient Algorithm for Linear {M}arkov Decision Process with Low Switching"
        " Cost",
        "Gao, Minbo and Xie, Tianle and Du, Simon S. and Yang, Lin F.",
        2021,
        eprint="2101.00494",
    ),
}
LIBRARY = "lowswitch"

# the papers behind each part, by the name of the part's class
_SOURCES = {
    "UCB2": ("bai2019provably",),
    "Stages": ("zhang2020almost",),
    "WholePolicy": ("jaksch2010near",),
    "QLearning": ("jin2018q",),
    "StageQLearning": ("zhang2020almost",),
    "Advantage": ("zhang2020almost",),
    "EarlySettled": ("li2021breaking",),
    "RandomizedStages": ("tiapkin2023model",),
    "FederatedQ": ("zheng2024federated",),
    "FederatedAdvantage": ("zheng2025federated",),
    "FederatedSettled": ("zhang2025regret", "li2021breaking"),
    "ChernoffHoeffding": ("azar2017minimax",),
    "BernsteinFreedman": ("azar2017minimax",),
    "MonotonicBernstein": ("zhang2024settling",),
    "Certificates": ("dann2019policy",),
    "LayerByLayer": ("qiao2022sample",),
    "MultiBatch": ("zhang2022near",),
    "Posterior": ("osband2013more",),
    "LearnedPosterior": (LIBRARY, "osband2013more"),
    "L1Ball": ("jaksch2010near",),
    "Unknown": ("brafman2002rmax",),
    "ConfidenceIntervals": ("strehl2008analysis",),
    "Sampled": (LIBRARY, "osband2016generalization"),
    "Ellipsoid": (
        *("li2010contextual", "abbasi2011improved"),
        *("jin2020provably", "gao2021provably"),
    ),
}


def keys_of(schedule: Any, estimator: Any, bonus: Any) -> list[str]:
    """The keys of the papers behind three parts, without repetition."""
    names = [type(part).__name__ for part in (schedule, estimator, bonus)]
    keys = [key for name in names for key in _SOURCES.get(name, ())]
    if getattr(estimator, "reference", "") == "settled":
        keys.append("li2021breaking")
    if getattr(estimator, "data", "") == "all":  # MVP as first published
        keys.insert(0, "zhang2021reinforcement")
    if getattr(schedule, "ends", "") == "minimax":
        keys.insert(0, "gao2019batched")
    if names[0] == "EveryEpisodes" and names[2] == "ConfidenceIntervals":  # CMBIE
        keys.append("guo2015concurrent")
    return list(dict.fromkeys(keys))


def entry_of(key: str) -> str:
    """The BibTeX entry of a paper or of this library."""
    return library_entry() if key == LIBRARY else PAPERS[key].entry(key)


def library_entry() -> str:
    """The BibTeX entry of this library; it has no URL because none is known."""
    from lowswitch.io.archive import library_version

    fields = {
        "title": "lowswitch: reinforcement learning for policies that are expensive to change",
        "author": "{The lowswitch developers}",
        "year": "2026",
        "note": f"Version {library_version()}",
    }
    lines = [f"  {name:13} = {{{value}}}" for name, value in fields.items()]
    return f"@software{{{LIBRARY},\n" + ",\n".join(lines) + "\n}"
