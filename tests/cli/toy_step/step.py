"""What `icectl label` would do to a table."""

from icectl.commands.label.options import LabelRequest
from icectl.commands.label.plan import plan

from icectl.commands.sight import Sight
from icectl.commands.steps import HealthCheck, Judgement, Limit, Measure, Step


def _plan(sight: Sight, request: LabelRequest) -> Judgement:
    teams = plan(sight.metadata, request)
    return Judgement(len(teams), (Measure("missing-labels", 1, "label it"),) if teams else ())


_LIMIT = Limit("missing-labels", "missing labels", "label tables from N missing labels on")
_CHECK = HealthCheck(
    "labels",
    "labels",
    (_LIMIT.name,),
    lambda missing: f"{missing} missing",
    lambda missing: {"missing_label_count": missing},
)
STEP: Step = Step(
    command="label",
    request=LabelRequest,
    read=lambda _settings, _now_ms, request: request,
    plan=_plan,
    nothing=0,
    limits=(_LIMIT,),
    checks=(_CHECK,),
)
