"""The command line of a suite."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from agentflow_eval._files import write_text
from agentflow_eval.compat.agno._runner import arun_cases, select
from agentflow_eval.compat.agno._types import Case, CaseResult, SuiteResult
from agentflow_eval.errors import ReportError

_PASSED, _FAILED, _NOTHING = 0, 1, 2


def cli(
    cases: Sequence[Case],
    *,
    db: Any = None,
    judge_model: Any = None,
    default_timeout: int = 120,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs a suite as a command: ``sys.exit(cli(CASES))``.

    Args:
        cases: The suite.
        db: Not used.
        judge_model: The agno model that judges where the case names none.
        default_timeout: Seconds for a run whose case does not say.
        argv: The arguments; None takes those of the process.

    Returns:
        0: all selected cases passed. 1: one failed, or ``--json-output`` could not be written. 2: none was selected.

    Raises:
        SystemExit: An option makes no sense (2), or help was asked for (0).
    """
    return asyncio.run(acli(cases, db=db, judge_model=judge_model, default_timeout=default_timeout, argv=argv))


async def acli(
    cases: Sequence[Case],
    *,
    db: Any = None,
    judge_model: Any = None,
    default_timeout: int = 120,
    argv: Sequence[str] | None = None,
) -> int:
    """`cli` for callers inside an event loop."""
    options = _parser(default_timeout).parse_args(argv)
    chosen = select(cases, options.tag, options.name)
    if not chosen:
        names = ", ".join(case.name for case in cases) or "none"
        print(f"no case matches (name={options.name!r}, tag={options.tag!r}); there are: {names}", file=sys.stderr)
        return _NOTHING
    if options.list:
        listed = [_listed(case, options.timeout) for case in chosen]
        for entry in listed:
            print("  ".join(str(value) for value in (entry["name"], ", ".join(entry["tags"])) if value))
        return _PASSED if _written({"cases": listed}, options.json_output) else _FAILED
    suite = await arun_cases(
        chosen,
        default_timeout=options.timeout,
        judge_model=judge_model,
        db=db,
        on_case_end=lambda case, result: _show(case, result, options.verbose),
    )
    _show_summary(suite)
    written = _written(suite.to_dict(), options.json_output)
    return _PASSED if written and suite.status == "PASS" else _FAILED


def _parser(default_timeout: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the cases of an evaluation suite.")
    parser.add_argument("--name", help="run only the case of this name")
    parser.add_argument("--tag", help="run only cases with this tag")
    parser.add_argument(
        "--timeout", type=_seconds, default=default_timeout, metavar="SECONDS", help="for cases that state none"
    )
    parser.add_argument("--json-output", metavar="PATH", help="write the results as JSON to this file")
    parser.add_argument("--list", action="store_true", help="list the selected cases without running them")
    parser.add_argument("-v", "--verbose", action="store_true", help="show input, tool calls and answer of each case")
    return parser


def _seconds(text: str) -> int:
    seconds = int(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {seconds}")
    return seconds


def _listed(case: Case, timeout: int) -> dict[str, Any]:
    component_id = getattr(case.component, "id", None) or getattr(case.component, "name", None)
    return {
        "name": case.name,
        "agent_id": component_id if case.agent is not None else None,
        "team_id": component_id if case.team is not None else None,
        "tags": list(case.tags),
        "timeout_seconds": case.timeout_seconds or timeout,
    }


def _show(case: Case, result: CaseResult, verbose: bool) -> None:
    print(f"{_word(result)}  {result.name} ({result.duration_seconds:.1f} s)")
    if verbose:
        print(f"  message: {case.input}")
        print(f"  tool calls: {', '.join(result.tools_called) or 'none'}")
        print(f"  response: {result.output}")
    if result.passed:
        return
    if result.judge_passed is False:
        print(f"  judge: {result.judge_reason}")
    if result.reliability_passed is False and result.evidence is not None:
        found = result.evidence.get_criterion_result("check:reliability")
        print(f"  tools: {found.reason if found else ''}")
    if result.error:
        print(f"  {result.error}")


def _word(result: CaseResult) -> str:
    return "SKIP" if result.skipped else "PASS" if result.passed else "FAIL"


def _show_summary(suite: SuiteResult) -> None:
    print(f"{suite.status}: {suite.passed}/{suite.total} passed, {suite.failed} failed")


def _written(payload: dict[str, Any], path: str | None) -> bool:
    if path is None:
        return True
    try:
        write_text(path, json.dumps(payload, indent=2, ensure_ascii=False) + "\n")
    except ReportError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return False
    print(f"json output: {path}")
    return True
