"""One result from several runs of a case."""

from __future__ import annotations

from collections.abc import Sequence

from agentflow_eval.result import NO_TOKENS, CriterionResult, EvalCaseResult, Outcome, total_cost

_WORST_FIRST = (Outcome.FAILED, Outcome.ERROR, Outcome.PASSED, Outcome.SKIPPED)


def combined(trials: Sequence[EvalCaseResult]) -> EvalCaseResult:
    """The case over all its trials: passed when every one passed; the evidence is that of the first that decided."""
    outcome = _worst([trial.outcome for trial in trials])
    shown = next(trial for trial in trials if trial.outcome is outcome)
    return shown.model_copy(
        update={
            "criterion_results": _over_trials(trials),
            "duration_seconds": sum(trial.duration_seconds for trial in trials),
            "token_usage": sum((trial.token_usage for trial in trials), NO_TOKENS),
            "agent_token_usage": sum((trial.agent_token_usage for trial in trials), NO_TOKENS),
            "simulator_token_usage": sum((trial.simulator_token_usage for trial in trials), NO_TOKENS),
            "judge_cost": total_cost(trial.judge_cost for trial in trials),
            "side_errors": [error for trial in trials for error in trial.side_errors],
            "trials": list(trials),
        }
    )


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    return next(outcome for outcome in _WORST_FIRST if outcome in outcomes)


def _over_trials(trials: Sequence[EvalCaseResult]) -> list[CriterionResult]:
    names = dict.fromkeys(result.criterion for trial in trials for result in trial.criterion_results)
    return [_one_criterion([r for t in trials for r in t.criterion_results if r.criterion == name]) for name in names]


def _one_criterion(results: Sequence[CriterionResult]) -> CriterionResult:
    outcome = _worst([result.outcome for result in results])
    shown = next(result for result in results if result.outcome is outcome)
    scores = [result.score for result in results]
    known = [score for score in scores if score is not None]
    details = shown.details | {"trial_scores": scores}
    if outcome is not Outcome.PASSED:
        count = sum(result.outcome is outcome for result in results)
        details["reason"] = f"{count} of {len(results)} trials {_verb(outcome)}: {shown.reason}"
    judged = outcome in (Outcome.PASSED, Outcome.FAILED)
    return shown.model_copy(
        update={
            "score": sum(known) / len(known) if judged else None,
            "details": details,
            "token_usage": sum((result.token_usage for result in results), NO_TOKENS),
            "cost": total_cost(result.cost for result in results),
        }
    )


def _verb(outcome: Outcome) -> str:
    return "could not be judged" if outcome is Outcome.ERROR else outcome.value
