"""``python -m agentflow_eval`` is the command ``agentflow-eval``."""

from agentflow_eval.cli import script

if __name__ == "__main__":
    script()
