"""Details of problem responses without variable parts."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.config.api_schema import MAX_BODY_BYTES, OPENAPI_PATH, ProblemCode

DETAILS: Mapping[ProblemCode, str] = {
    ProblemCode.BODY_INCOMPLETE: "request incomplete: connection closed by the client",
    ProblemCode.BODY_TIMEOUT: "timeout: request body not received in time",
    ProblemCode.BODY_TOO_LARGE: f"request too large: at most {MAX_BODY_BYTES} bytes",
    ProblemCode.ENCODING_NOT_SUPPORTED: (
        "Content-Encoding: not supported; send plain JSON"
    ),
    ProblemCode.ID_CONFLICT: "id: already used by a request with other content",
    ProblemCode.INTERNAL_ERROR: "internal error; see the log of the controller",
    ProblemCode.PATH_INVALID: "invalid parameter in the path",
    ProblemCode.PATH_UNKNOWN: f"unknown path; see {OPENAPI_PATH}",
    ProblemCode.SAMPLES_UNKNOWN: "no samples of this guest",
    ProblemCode.SERVER_BUSY: "too many large requests at the same time; retry",
    ProblemCode.STORE_FAILED: "request could not be recorded; retry",
    ProblemCode.TOKEN_UNKNOWN: "token missing or unknown; send the token of a node",
}
