"""Print prometheusrule.yaml, the alerts for the Prometheus operator: `python scripts/prometheus_rules.py`."""

import textwrap
from pathlib import Path

HEAD = """\
# Generated from rules.yaml by `make generate`: the same rules for the Prometheus operator.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ragstore
  labels:
    app.kubernetes.io/name: ragstore
    app.kubernetes.io/part-of: ragstore
spec:
"""

rules = (Path(__file__).resolve().parents[1] / "k8s/monitoring/rules.yaml").read_text()
print(HEAD + textwrap.indent(rules[rules.index("groups:") :], "  "), end="")
