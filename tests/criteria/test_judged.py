"""Judged criteria through the evaluator: what they ask, and what the answers come to."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.config import CriteriaConfig, EvalConfig
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation
from agentflow_eval.errors import JudgeError, LoadError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.judge import JudgeReply, JudgeRequest
from agentflow_eval.result import CriterionResult, ErrorKind, EvalReport, Outcome, TokenUsage

SAFE = {"harmful_content": 1, "hate_speech": 1, "privacy": 1, "misinformation": 1, "manipulation": 1}
SLOTS = [
    "response_match",
    "llm_judge",
    "rubric_based",
    "factual_accuracy",
    "hallucination",
    "safety",
    "simulation_goals",
]
RUBRICS = [
    {"rubric_id": "polite", "content": "Is polite."},
    {"rubric_id": "brief", "content": "Is brief.", "weight": 3},
]


class Recorder:
    """A judge that keeps what it was asked and answers by what a function of the prompt says."""

    def __init__(self, reply: Callable[[str], Any]) -> None:
        self.reply = reply
        self.requests: list[JudgeRequest] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.requests.append(request)
        answer = self.reply(request.prompt)
        if isinstance(answer, BaseException):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return JudgeReply(text, TokenUsage(input_tokens=100, output_tokens=10))

    @property
    def prompts(self) -> list[str]:
        """The prompts, each once."""
        return list(dict.fromkeys(request.prompt for request in self.requests))


async def agent(text: str, run: Any) -> str:
    """Looks the weather up and says it; says nothing when told to."""
    run.node("MAIN")
    if text == "say nothing":
        return ""
    with run.tool("weather", {"city": "Paris"}) as call:
        call.result = {"sky": "sunny", "note": "{{ 7 * 7 }} </answer>"}
    return f"It is sunny: {text}"


def case(*turns: Mapping[str, Any] | str, **values: Any) -> EvalCase:
    """A case of these turns."""
    built = [turn(question) if isinstance(question, str) else question for question in turns]
    return EvalCase.model_validate({"eval_id": "c", "conversation": built, **values})


def turn(question: str, expected: str | None = None) -> dict[str, Any]:
    """A turn with an expected answer."""
    made = {"user_content": {"role": "user", "content": question}}
    if expected is not None:
        made["expected_final_response"] = {"role": "assistant", "content": expected}
    return made


def config(slot: str, settings: Mapping[str, Any] | None = None, **more: Any) -> EvalConfig:
    """A config with one judged criterion, and no reports."""
    chosen = {"rubrics": RUBRICS} if slot == "rubric_based" else {}
    criteria = {slot: {"num_samples": 1, **chosen, **(settings or {})}}
    return EvalConfig.model_validate({"criteria": criteria, "reporter": {"enabled": False}, **more})


def run(judge: Any, cases: Sequence[EvalCase], chosen: EvalConfig) -> EvalReport:
    """The report of a run."""
    evaluator = AgentEvaluator(agent, config=chosen, judge=judge)
    return asyncio.run(evaluator.evaluate(EvalSet(eval_set_id="s", eval_cases=list(cases))))


def judged(
    slot: str,
    asked: EvalCase,
    reply: Callable[[str], Any] = lambda prompt: {"score": 0.9, "passed": True, "reasoning": "good", **SAFE},
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[CriterionResult, Recorder]:
    """What a criterion says of a case, and what it asked."""
    judge = Recorder(reply)
    report = run(judge, [asked], config(slot, settings, **more))
    return report.results[0].criterion_results[0], judge


def blocks(prompt: str) -> dict[str, list[str]]:
    """What stands between the delimiters of a prompt, by name."""
    found: dict[str, list[str]] = {}
    lines = prompt.splitlines()
    for index, line in enumerate(lines):
        name, _, token = line.removeprefix("<<<").partition(" ")
        if line.startswith("<<<") and f"{name} {token}>>>" in lines[index:]:
            end = lines.index(f"{name} {token}>>>", index)
            found.setdefault(name, []).append("\n".join(lines[index + 1 : end]))
    return found


FULL = case(
    turn("Hello?"),
    turn("Weather?", "Sunny."),
    metadata={"context": {"season": "May"}, "reference_facts": ["Paris is in France", 7], "goals": ["knows it"]},
)
ANSWER = "It is sunny: Weather?"
TALK = {"user": ["Hello?", "Weather?"], "agent": ["It is sunny: Hello?", ANSWER]}
CALL = 'weather(city="Paris") -> {"sky": "sunny", "note": "{{ 7 * 7 }} </answer>"}'


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        ("response_match", {"question": ["Weather?"], "expected_answer": ["Sunny."], "answer": [ANSWER]}),
        ("llm_judge", {"question": ["Weather?"], "expected_answer": ["Sunny."], "answer": [ANSWER]}),
        (
            "factual_accuracy",
            {
                "question": ["Weather?"],
                "reference_facts": ["Paris is in France\n7"],
                "expected_answer": ["Sunny."],
                "answer": [ANSWER],
            },
        ),
        (
            "hallucination",
            {
                "user": TALK["user"],
                "agent": ["It is sunny: Hello?", "(the answer below)"],
                "context": [f'{CALL}\n{CALL}\n{{"season": "May"}}'],
                "answer": [ANSWER],
            },
        ),
        ("safety", TALK),
        ("simulation_goals", {"goal": ["knows it"], **TALK, "tool_calls": [f"{CALL}\n{CALL}"]}),
    ],
)
def test_questions(slot: str, expected: dict[str, list[str]]) -> None:
    """Each criterion shows its judge what it judges by, and nothing is taken for a template."""
    result, judge = judged(slot, FULL)
    assert result.outcome is Outcome.PASSED
    assert [expected] == [blocks(prompt) for prompt in judge.prompts]


def test_rubrics() -> None:
    """Rubrics are asked one by one, weighted, and each is in the details; weight 0 is not asked."""
    unused = {"rubric_id": "unused", "content": "Rhymes.", "weight": 0}
    result, judge = judged(
        "rubric_based",
        FULL,
        lambda prompt: {"score": 1.0 if "Is polite." in prompt else 0.6, "reasoning": "r"},
        {"rubrics": [*RUBRICS, unused], "num_samples": 2},
    )
    assert [blocks(prompt)["rule"] for prompt in judge.prompts] == [["Is polite."], ["Is brief."]]
    assert len(judge.requests) == 4
    assert result.score == pytest.approx((1.0 + 3 * 0.6) / 4)
    assert result.details["rubrics"] == {
        "polite": {"score": 1.0, "weight": 1.0, "content": "Is polite.", "reasonings": ["r", "r"]},
        "brief": {"score": 0.6, "weight": 3.0, "content": "Is brief.", "reasonings": ["r", "r"]},
    }
    assert result.token_usage.total_tokens == 440


@pytest.mark.parametrize(
    "rubrics",
    [[], [{"rubric_id": "a", "content": "x", "weight": 0}, {"rubric_id": "b", "content": "y", "weight": 0.0}]],
)
def test_rubrics_without_weight(rubrics: list[Any], tmp_path: Path) -> None:
    """No rubric, or none that counts, is an error of the config (AG07)."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"criteria": {"rubric_based": {"rubrics": rubrics}}}))
    with pytest.raises(LoadError, match="weight" if rubrics else "rubrics"):
        EvalConfig.from_file(path)


def test_safety() -> None:
    """The least of the five categories counts, and concerns are listed once."""
    verdict = {**SAFE, "privacy": 0.3, "issues": ["an address", "an address"]}
    result, _ = judged("safety", FULL, lambda prompt: verdict, {"num_samples": 3})
    assert result.outcome is Outcome.FAILED
    assert result.score == pytest.approx(0.3)
    assert result.details["category_scores"] == pytest.approx({**SAFE, "privacy": 0.3})
    assert (result.details["is_safe"], result.details["issues"]) == (False, ["an address"])


def test_safety_needs_all_categories() -> None:
    """A verdict without one of the categories is none."""
    result, _ = judged("safety", FULL, lambda prompt: {"privacy": 1, "score": 1})
    assert (result.outcome, result.score) == (Outcome.ERROR, None)
    assert "no 'harmful_content'" in str(result.error)


@pytest.mark.parametrize(
    ("slot", "key", "flag"),
    [("hallucination", "hallucinations", "is_grounded"), ("factual_accuracy", "errors", "is_accurate")],
)
def test_findings(slot: str, key: str, flag: str) -> None:
    """What the judge lists is in the details; the flag agrees with the outcome, also at the threshold."""
    found = {"score": 0.7, key: ["x", {"claim": "y"}, "x\ud800"]}
    result, _ = judged(slot, FULL, lambda prompt: found, {"threshold": 0.7, "num_samples": 3})
    assert result.outcome is Outcome.PASSED
    assert result.details[flag] is True
    assert result.details[key] == ["x", '{"claim": "y"}', "x\\ud800"]


def test_goals() -> None:
    """Goals are asked one by one; the score is their mean."""
    asked = case("Hi", metadata={"goals": ["books", "pays", "books"]})
    result, judge = judged("simulation_goals", asked, lambda prompt: {"passed": "\nbooks\n" in prompt})
    assert len(judge.requests) == 2
    assert (result.score, result.details["achieved_goals"], result.details["unachieved_goals"]) == (
        0.5,
        ["books"],
        ["pays"],
    )


@pytest.mark.parametrize("slot", SLOTS)
def test_no_answer(slot: str) -> None:
    """An agent that says nothing has failed, and no judge is asked."""
    asked = case(turn("say nothing", "Sunny."), metadata={"goals": ["g"]})
    result, judge = judged(slot, asked)
    assert (result.outcome, result.score, judge.requests) == (Outcome.FAILED, 0.0, [])
    assert result.reason == "the agent gave no response"


@pytest.mark.parametrize("slot", ["response_match", "llm_judge", "factual_accuracy", "hallucination"])
def test_no_answer_where_one_is_judged(slot: str) -> None:
    """An earlier answer does not stand in for the one that is judged."""
    result, judge = judged(slot, case(turn("Hello?"), turn("say nothing", "Sunny.")))
    assert (result.outcome, judge.requests) == (Outcome.FAILED, [])


@pytest.mark.parametrize(
    ("slot", "said"),
    [
        ("response_match", "no expected_final_response"),
        ("llm_judge", "no expected_final_response"),
        ("simulation_goals", "no goal"),
    ],
)
def test_no_expectation(slot: str, said: str) -> None:
    """Without an expectation nothing is asked, and the criterion is skipped."""
    result, judge = judged(slot, case("Hello?"))
    assert (result.outcome, result.score, judge.requests) == (Outcome.SKIPPED, None, [])
    assert said in str(result.reason)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize(
    "fault",
    [JudgeError("down"), ValueError("odd"), SystemExit(1), asyncio.CancelledError(), "no verdict", '{"score": 8}'],
)
def test_judge_fails(slot: str, fault: Any) -> None:
    """A judge that gives no verdict is an error of its criterion and its case, never a score."""
    judge = Recorder(lambda prompt: fault)
    report = run(judge, [FULL, FULL.model_copy(update={"eval_id": "d"})], config(slot, {"num_samples": 2}))
    for result in report.results:
        criterion = result.criterion_results[0]
        assert (criterion.outcome, criterion.score, criterion.passed) == (Outcome.ERROR, None, False)
        assert (criterion.details["judge_model"], criterion.details["judge"]) == ("gemini-2.5-flash", "Recorder")
        assert "judge 'Recorder': 0 of 2 samples gave a usable verdict" in str(criterion.error)
        assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.JUDGE)
    assert report.summary.error_cases == 2


def test_unknown_model() -> None:
    """A model that nobody knows is an error that names it and what to do (JP33)."""
    report = run(None, [FULL], config("llm_judge", {"judge_model": "nonexistent-model", "num_samples": 3}))
    result = report.results[0]
    assert (result.outcome, result.error_kind, result.passed) == (Outcome.ERROR, ErrorKind.JUDGE, False)
    assert result.criterion_results[0].score is None
    assert "'nonexistent-model' means no known provider; write provider:model" in str(result.error)


def test_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is not set is named."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "AGENTFLOW_EVAL_API_KEY", "AGENTFLOW_EVAL_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    report = run(None, [FULL], config("response_match"))
    assert "set GEMINI_API_KEY or GOOGLE_API_KEY" in str(report.results[0].error)


def test_failed_and_broken() -> None:
    """A case with a failed and a broken criterion has failed."""
    criteria = {"safety": {"num_samples": 1}, "exact_match": {}}
    chosen = EvalConfig.model_validate({"criteria": criteria, "reporter": {"enabled": False}})
    report = run(Recorder(lambda prompt: JudgeError("down")), [FULL], chosen)
    assert report.results[0].outcome is Outcome.FAILED


def test_some_samples_fail() -> None:
    """Lost samples are told beside the score."""
    replies = iter(["no", '{"score": 0.8}', '{"score": 0.6}', "no"])
    result, _ = judged("llm_judge", FULL, lambda prompt: next(replies), {"num_samples": 3, "threshold": 0.7})
    details = result.details
    assert result.outcome is Outcome.PASSED
    assert result.score == pytest.approx(0.7)
    assert (details["samples"], details["valid_samples"], details["attempts"]) == (3, 2, 4)
    assert (details["individual_scores"], details["spread"]) == ([0.8, 0.6], pytest.approx(0.2))
    assert "no JSON object" in details["sample_errors"][0]


def test_failed_reason() -> None:
    """A failed judgement says the score, the threshold and the judge's reason."""
    result, _ = judged("llm_judge", FULL, lambda prompt: {"score": 0.2, "reasoning": "wrong city"})
    assert result.reason == "score 0.20 is below the threshold 0.80; the judge says: wrong city"


def test_tokens_and_cost() -> None:
    """Tokens and cost are summed by criterion, case and run; an agent's tokens stand apart."""
    judge = Recorder(lambda prompt: {"score": 1, **SAFE})
    criteria = {"safety": {"num_samples": 2}, "llm_judge": {"num_samples": 3, "judge_model": "other"}}
    prices = {"gemini-2.5-flash": {"input": 10, "output": 100}}
    chosen = EvalConfig.model_validate(
        {"criteria": criteria, "judge": {"prices": prices}, "reporter": {"enabled": False}}
    )
    report = run(judge, [FULL, FULL.model_copy(update={"eval_id": "d"})], chosen)
    by_name = {result.criterion: result for result in report.results[0].criterion_results}
    assert by_name["safety_v1"].token_usage.total_tokens == 220
    assert by_name["safety_v1"].cost == pytest.approx(0.004)
    assert by_name["final_response_match_v2"].cost is None
    assert report.results[0].judge_cost == pytest.approx(0.004)
    assert report.results[0].token_usage.total_tokens == 550
    assert report.results[0].agent_token_usage.total_tokens == 0
    assert report.summary.judge_cost == pytest.approx(0.008)
    assert (report.judge_use["calls"], report.judge_use["verdicts"]) == (10, 10)


def test_judge_io() -> None:
    """Prompts and raw replies are kept when the config asks for them."""
    without, _ = judged("llm_judge", FULL)
    assert "judge_io" not in without.details
    replies = iter(["hm", '{"score": 1}'])
    result, judge = judged("llm_judge", FULL, lambda prompt: next(replies), include_judge_io=True)
    assert result.details["judge_io"] == [{"prompt": judge.requests[0].prompt, "replies": ["hm", '{"score": 1}']}]


@pytest.mark.parametrize(
    ("scale", "reply", "score", "words"),
    [
        ("0-1", {"score": 0.7}, 0.7, "from 0 (worst) to 1"),
        ("1-10", {"score": 7}, 0.7, "from 1 (worst) to 10"),
        ("binary", {"passed": True}, 1.0, "true (it does)"),
    ],
)
def test_scale(scale: str, reply: dict[str, Any], score: float, words: str) -> None:
    """The scale changes the question, the schema and the reading."""
    result, judge = judged("llm_judge", FULL, lambda prompt: reply, {"scale": scale})
    assert result.score == pytest.approx(score)
    assert words in judge.prompts[0]
    assert next(iter(reply)) in judge.requests[0].schema["required"]


def test_goals_on_another_scale() -> None:
    """Goals are binary unless the config says otherwise."""
    result, judge = judged("simulation_goals", FULL, lambda prompt: {"score": 9}, {"scale": "1-10"})
    assert result.score == 0.9
    assert "from 1 (worst) to 10" in judge.prompts[0]


def test_instructions_and_prompt(tmp_path: Path) -> None:
    """Instructions are added, and a prompt of the user's own replaces the built-in one."""
    _, judge = judged("llm_judge", FULL, settings={"instructions": "Mind the units."})
    assert "Mind the units." in judge.prompts[0]
    path = tmp_path / "p.j2"
    path.write_text("Grade this: {{ answer }}")
    _, judge = judged("llm_judge", FULL, settings={"prompt": str(path)})
    assert judge.prompts == [f"You are a careful and impartial judge.\n\nGrade this: {ANSWER}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\n{{ oops", "line 2: "),
        (
            "{{ answer }}\n{% if anwser %}{{ rubric }}{% endif %}",
            "line 2: there is no 'anwser' (answer, example, expected, instructions, question, scale)",
        ),
        ("{{ answer }}\n\n{{ answer }} {{ rubric }}", "line 3: there is no 'rubric'"),
    ],
)
@pytest.mark.parametrize("place", ["config", "case", "turn"])
def test_broken_prompt(text: str, problem: str, place: str, tmp_path: Path) -> None:
    """A prompt that is broken is one load error with file and line before anything runs, wherever it is named."""
    path = tmp_path / "p.j2"
    path.write_text(text)
    judge = Recorder(lambda prompt: {"score": 0.9})
    broken = CriteriaConfig.model_validate({"llm_judge": {"prompt": str(path)}})
    asked = FULL.model_copy(deep=True)
    if place == "case":
        asked.criteria = broken
    if place == "turn":
        asked.conversation[0].criteria = broken
    settings = {"prompt": str(path)} if place == "config" else {}
    with pytest.raises(LoadError) as raised:
        run(judge, [asked], config("llm_judge", settings))
    assert f"{path}: {problem}" in str(raised.value)
    assert judge.requests == []


def test_missing_prompt() -> None:
    """A prompt that is not there is a load error before anything runs."""
    with pytest.raises(LoadError, match=r"nowhere\.j2: prompt file not found"):
        judged("llm_judge", FULL, settings={"prompt": "nowhere.j2"})


def test_majority() -> None:
    """With majority the score is 1 or 0."""
    replies = iter(['{"score": 0.9}', '{"score": 0.85}', '{"score": 0.1}'])
    result, _ = judged("llm_judge", FULL, lambda prompt: next(replies), {"num_samples": 3, "aggregate": "majority"})
    assert (result.score, result.outcome) == (1.0, Outcome.PASSED)


def test_cached_run(tmp_path: Path) -> None:
    """A run with a cache reuses the verdicts of the one before, and says so."""
    path = str(tmp_path / "c.db")
    reports = []
    for _ in range(2):
        judge = Recorder(lambda prompt: {"score": 0.9})
        reports.append(run(judge, [FULL], config("llm_judge", {"num_samples": 3}, judge_cache=path)))
    assert [report.judge_use["reused"] for report in reports] == [0, 3]
    assert reports[1].results[0].criterion_results[0].details["reused"] == 3
    replay = config("safety", judge_cache=path, replay_only=True)
    report = run(None, [FULL], replay)
    assert report.results[0].error_kind is ErrorKind.JUDGE
    assert "replay_only" in str(report.results[0].error)


def test_exit_in_a_judge() -> None:
    """A judge that ends the process ends its own samples only; other cases go on."""

    async def judge(prompt: str) -> str:
        if "Bye?" in prompt:
            sys.exit(1)
        return '{"score": 1}'

    report = run(judge, [case(turn("Bye?", "x")), case(turn("Hi?", "x"), eval_id="d")], config("llm_judge"))
    assert [result.outcome for result in report.results] == [Outcome.ERROR, Outcome.PASSED]


def test_without_judges() -> None:
    """A criterion that is used by itself and was given no judge says so."""
    from agentflow_eval.criteria import build
    from agentflow_eval.result import ExecutionResult

    (criterion,) = build(CriteriaConfig.model_validate({"llm_judge": {}}))
    asked = EvalCase(eval_id="c", conversation=[Invocation.model_validate(turn("Hi", "Hello"))])
    result = asyncio.run(criterion.evaluate(ExecutionResult(actual_response="Hello"), asked))
    assert result.outcome is Outcome.ERROR
    assert "'gemini-2.5-flash'" in str(result.error)


TWO_TURNS = (turn("Weather in Oslo?", "Rain."), turn("Weather in Rome?", "Sun."))


def test_turn_scope() -> None:
    """With scope turn each turn is asked about by itself; the score is the mean and every turn has to pass."""
    judge = Recorder(lambda prompt: {"score": 0.9 if "Oslo" in prompt else 0.2, "reasoning": "seen"})
    settings = {"scope": "turn", "num_samples": 1, "threshold": 0.5}
    report = run(judge, [case(*TWO_TURNS)], config("response_match", settings))
    result = report.results[0].criterion_results[0]
    assert result.outcome is Outcome.FAILED
    assert result.score == pytest.approx(0.55)
    assert [row["outcome"] for row in result.details["turns"]] == ["passed", "failed"]
    assert (result.reason or "").startswith("turn 2: ")
    assert result.token_usage.total_tokens == 220


def test_turn_with_its_own_judge() -> None:
    """A turn's own slot replaces the config's for that turn, the model included."""
    judge = Recorder(lambda prompt: {"score": 1.0, "reasoning": ""})
    own = {"criteria": {"response_match": {"judge_model": "other", "num_samples": 2}}}
    report = run(judge, [case(TWO_TURNS[0], {**TWO_TURNS[1], **own})], config("response_match", {"num_samples": 1}))
    assert report.results[0].passed
    assert sorted(request.model for request in judge.requests) == ["gemini-2.5-flash", "other", "other"]


def test_slot_of_one_turn_only() -> None:
    """A slot that only one turn gives is judged in that turn alone."""
    judge = Recorder(lambda prompt: {"score": 1.0, "reasoning": ""})
    own = {"criteria": {"llm_judge": {"num_samples": 1}}}
    chosen = config("response_match", {"num_samples": 1, "enabled": False})
    report = run(judge, [case(TWO_TURNS[0], {**TWO_TURNS[1], **own})], chosen)
    result = report.results[0].criterion_results[0]
    assert result.criterion == "final_response_match_v2"
    assert [row["turn"] for row in result.details["turns"]] == [2]
    assert len(judge.requests) == 1


def test_failed_turn_beside_a_broken_one() -> None:
    """A turn that failed decides, even when another could not be judged."""
    judge = Recorder(lambda prompt: JudgeError("down") if "Oslo" in prompt else {"score": 0.0, "reasoning": ""})
    report = run(judge, [case(*TWO_TURNS)], config("response_match", {"scope": "turn", "num_samples": 1}))
    assert report.results[0].outcome is Outcome.FAILED


@pytest.mark.parametrize("slot", ["response_match", "rubric_based"])
def test_no_answer_never_passes(slot: str) -> None:
    """No answer is a failure even with the threshold 0."""
    settings: dict[str, Any] = {"threshold": 0.0} | ({"rubrics": RUBRICS} if slot == "rubric_based" else {})
    report = run(Recorder(lambda prompt: {"score": 1.0}), [case(turn("say nothing", "x"))], config(slot, settings))
    assert report.results[0].outcome is Outcome.FAILED


def test_turn_by_turn() -> None:
    """A turn's own settings are its own; what each turn's judge said and took is kept."""
    own = {**turn("Hello?", "Hi."), "criteria": {"llm_judge": {"threshold": 0.2, "num_samples": 2}}}
    result, judge = judged("llm_judge", case(own, turn("Weather?", "Sunny.")), lambda prompt: {"score": 0.5})
    assert sorted(blocks(prompt)["question"] for prompt in judge.prompts) == [["Hello?"], ["Weather?"]]
    assert (result.outcome, result.token_usage.total_tokens) == (Outcome.FAILED, 330)
    first, second = result.details["turns"]
    assert (first["outcome"], first["samples"], first["individual_scores"]) == ("passed", 2, [0.5, 0.5])
    assert (second["outcome"], second["samples"], result.details["judge_model"]) == ("failed", 1, "gemini-2.5-flash")


def test_turns_are_judged_at_the_same_time() -> None:
    """The judge has all turns before it answers the first; the rows stay in order."""
    waiting: list[str] = []

    async def judge(prompt: str) -> dict[str, Any]:
        waiting.append(prompt)
        while len(waiting) < 2:
            await asyncio.sleep(0)
        return {"score": 1.0, "reasoning": ""}

    report = run(judge, [case(*TWO_TURNS)], config("response_match", {"scope": "turn"}))
    result = report.results[0].criterion_results[0]
    assert (result.outcome, [row["turn"] for row in result.details["turns"]]) == (Outcome.PASSED, [1, 2])
