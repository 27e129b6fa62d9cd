"""Validate rendered manifests against the schemas of their kinds: `python scripts/validate_manifests.py FILE...`.

kubernetes-validate checks Kubernetes' own kinds strictly: an unknown field is an error. The kinds of the Prometheus
operator are checked with models generated from the operator's definitions. A kind that neither knows is an error, so
that a misspelt kind is noticed.
"""

import sys
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pydantic
import yaml
from cloudcoil.models.prometheus_operator.v1 import PrometheusRule, ServiceMonitor

OPERATOR: Final = {("monitoring.coreos.com/v1", kind.__name__): kind for kind in (PrometheusRule, ServiceMonitor)}
VERSION: Final = kubernetes_validate.latest_version()


def problem(manifest: dict[str, Any]) -> str:
    """Validate a manifest and return the first problem; empty when it is valid."""
    try:
        if model := OPERATOR.get((manifest["apiVersion"], manifest["kind"])):
            model.model_validate(manifest, extra="forbid")
        else:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return str(error.message)
    except pydantic.ValidationError as error:
        return str(error)
    return ""


def main() -> None:
    """Validate every file; exit with 1 if any is invalid."""
    invalid = False
    for name in sys.argv[1:]:
        for manifest in yaml.safe_load_all(Path(name).read_text()):
            if text := problem(manifest):
                invalid = True
                sys.stderr.write(f"{name}: {manifest['kind']} {manifest['metadata']['name']}: {text}\n")
    sys.exit(invalid)


main()
