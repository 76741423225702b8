"""Import of the configuration of ProxLB.

ProxLB is under GPL 3; its format is taken from its documentation.
"""

from __future__ import annotations

from opendrs.config.diagnostics import Diagnostic
from opendrs.config.proxlb.balancing import POLICY as POLICY
from opendrs.config.proxlb.balancing import translate_balancing
from opendrs.config.proxlb.connection import translate_api, translate_cluster
from opendrs.config.proxlb.document import read_document as read_document
from opendrs.config.proxlb.schema import validate_document
from opendrs.config.proxlb.service import translate_service, translate_solver
from opendrs.config.proxlb.translation import ImportedSetting as ImportedSetting
from opendrs.config.proxlb.translation import ImportStatus as ImportStatus
from opendrs.config.proxlb.translation import Translation as Translation


def translate(
    document: object, *, trusted: bool
) -> tuple[Translation, tuple[Diagnostic, ...]]:
    """Return the configuration *document* of ProxLB as tables of OpenDRS, and errors.

    Args:
        document: Plain values, as from `read_document`.
        trusted: Whether the operator named the certificates to trust.

    Returns:
        The translation, which is empty if there are errors; all errors.
    """
    configuration, problems = validate_document(document)
    result = Translation()
    if configuration is None:
        return result, problems
    translate_api(configuration.proxmox_api, result, trusted=trusted)
    translate_cluster(configuration.proxmox_cluster, result)
    translate_balancing(configuration.balancing, result)
    translate_service(configuration.service, result)
    translate_solver(configuration.solver, result)
    result.platform["proxlb_tags"] = True
    if result.problems:
        return Translation(), tuple(result.problems)
    return result, ()
