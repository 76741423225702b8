"""Explanations of recorded decisions, and the settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from opendrs.api.context import ApiContext
from opendrs.api.principal import Principal, viewer
from opendrs.api.problems import ProblemError
from opendrs.api.responses import described
from opendrs.api.routes.cluster import Run, cycle_header, open_steps, require_cycle
from opendrs.api.schema.common import MAX_NAME, ApiProblem
from opendrs.api.schema.subjects import RunExplanation, SettingList
from opendrs.config import display_path
from opendrs.controller.explanation import excluded_nodes, explain_decision
from opendrs.controller.views.remedies import remedy
from opendrs.controller.views.setting_list import setting_documents
from opendrs.controller.views.subjects import explanation_document
from opendrs.model import format_timestamp
from opendrs.ports import CycleSummary

Subject = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=MAX_NAME,
        description="A guest, a node, a plan, or a step of the cycle; without it the "
        "decision.",
    ),
]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of explanations and settings."""
    router = APIRouter(tags=["cluster"])
    _add_explanations(router, context)
    _add_settings(router, context)
    return router


def _add_explanations(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/explanations",
        response_model=RunExplanation,
        responses=described(404),
        summary="Explain a decision",
    )
    def explain_subject(
        subject: Subject = None, run: Run = None, principal: Principal = viewer
    ) -> dict[str, Any]:
        """Explain why the last cycle, or another one, decided as it did.

        For a guest: why it is moved or stays, which rules bind it, how many nodes are
        feasible, and what would have to change. For a guest and a step: the nodes that
        were no target, by the rule, guest or memory that excludes them.
        """
        del principal
        plan = None if subject is None else context.stores.plans.plan(subject)
        if plan is not None:
            subject, run = None, plan.run
        if subject is None:
            return _decision(context, run)
        found = require_cycle(context, run)
        planned = open_steps(context, run)
        explanation = explanation_document(found.cycle, subject, planned)
        if explanation is None:
            detail = f"{subject}: no such guest, node, plan or step"
            raise ProblemError(ApiProblem.NOT_FOUND, detail)
        excluded = excluded_nodes(found.cycle, subject)
        return {
            **cycle_header(found),
            **explanation,
            "excluded": None
            if excluded is None
            else [{"detail": cause, "nodes": each} for cause, each in excluded.items()],
        }


def _decision(context: ApiContext, run: str | None) -> dict[str, Any]:
    """Return why a cycle has a plan, or none; its inputs are not needed."""
    history = context.stores.history
    cycle: CycleSummary | None
    cycle = history.newest() if run is None else history.cycle_of(run)
    decision = {} if cycle is None else history.decision(cycle)
    if cycle is None or not decision:
        detail = "no cycle is recorded yet" if run is None else f"{run}: no such cycle"
        raise ProblemError(ApiProblem.NOT_FOUND, detail)
    explanation = explain_decision(cycle.run, decision)
    return {
        "run": cycle.run,
        "decided_at": format_timestamp(cycle.decided_at),
        **asdict(explanation),
        "change": remedy(explanation.code),
        "excluded": None,
    }


def _add_settings(router: APIRouter, context: ApiContext) -> None:
    @router.get("/settings", response_model=SettingList, summary="List the settings")
    def list_settings(principal: Principal = viewer) -> dict[str, Any]:
        """List the settings of the configuration file, with line, and the defaults.

        Secrets are masked.
        """
        del principal
        path = context.config_path
        return {
            "file": None if path is None else display_path(path),
            "settings": setting_documents(context.settings, path),
        }
