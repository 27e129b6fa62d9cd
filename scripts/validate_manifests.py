"""Hold rendered manifests against the schemas of their kinds: python scripts/validate_manifests.py FILE...

Kubernetes' own kinds go through kubernetes-validate, strictly: a field that it does not know is an error. What the
Prometheus operator adds goes through models made from the operator's definitions. A kind that neither knows is an
error, since a misspelt kind must not pass unseen.
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


def complaint(manifest: dict[str, Any]) -> str:
    """What is wrong with a manifest; empty when nothing is."""
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
    """Check every file; end with 1 when anything is wrong."""
    wrong = False
    for name in sys.argv[1:]:
        for manifest in yaml.safe_load_all(Path(name).read_text()):
            if text := complaint(manifest):
                wrong = True
                sys.stderr.write(f"{name}: {manifest['kind']} {manifest['metadata']['name']}: {text}\n")
    sys.exit(wrong)


main()
