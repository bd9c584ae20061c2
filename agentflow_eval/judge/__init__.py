"""Models that judge: the protocol, reading what they reply, asking several times, remembering."""

from __future__ import annotations

from agentflow_eval.judge._loose import UnusableReplyError
from agentflow_eval.judge._prompts import Prompt, check_prompt, render
from agentflow_eval.judge._reading import Scale, Verdict, read_object, read_verdict
from agentflow_eval.judge.cache import JudgeCache
from agentflow_eval.judge.client import (
    Aggregate,
    Answer,
    FunctionJudge,
    Judge,
    JudgeReply,
    JudgeRequest,
    Judges,
    JudgeUse,
    NoReplyError,
    NotEnoughVerdictsError,
    Question,
    Sample,
    as_judge,
    no_judge,
    together,
)

__all__ = [
    "Aggregate",
    "Answer",
    "FunctionJudge",
    "Judge",
    "JudgeCache",
    "JudgeReply",
    "JudgeRequest",
    "JudgeUse",
    "Judges",
    "NoReplyError",
    "NotEnoughVerdictsError",
    "Prompt",
    "Question",
    "Sample",
    "Scale",
    "UnusableReplyError",
    "Verdict",
    "as_judge",
    "check_prompt",
    "no_judge",
    "read_object",
    "read_verdict",
    "render",
    "together",
]
