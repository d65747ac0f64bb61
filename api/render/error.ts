import { errorCodes, type PurserError } from '../../shared/errors.ts';

/** An error as on the wire. */
export function renderError(error: PurserError, { requestId }: { requestId?: string }) {
  return {
    code: error.code,
    type: errorCodes[error.code].type,
    message: error.message,
    param: error.param,
    details: error.details,
    request_id: requestId,
  };
}
