"""Documents for operators: plain values made from records, without input or output."""

from opendrs.controller.views.cluster_columns import (
    ClusterSummary as ClusterSummary,
)
from opendrs.controller.views.cluster_columns import (
    cluster_document as cluster_document,
)
from opendrs.controller.views.cluster_columns import (
    cluster_summary as cluster_summary,
)
from opendrs.controller.views.exceptions import ExceptionCode as ExceptionCode
from opendrs.controller.views.exceptions import OperatingState as OperatingState
from opendrs.controller.views.exceptions import (
    exception_documents as exception_documents,
)
from opendrs.controller.views.inaction import InactionReason as InactionReason
from opendrs.controller.views.inaction import inaction_document as inaction_document
