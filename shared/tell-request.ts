import type { WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { logFields } from './log-context.ts';
import { contextHeaders, type LogHeader } from './temporal-headers.ts';

/** For clients: a workflow is told which request started it, so that the lines of its activities lead back to it. */
export const tellRequest: WorkflowClientInterceptor = {
  startWithDetails: (input, next) => next({ ...input, headers: withRequest(input.headers) }),
  startUpdateWithStart: (input, next) =>
    next({ ...input, workflowStartHeaders: withRequest(input.workflowStartHeaders) }),
};

function withRequest(headers: Headers): Headers {
  const { request_id: requestId } = logFields();
  if (typeof requestId !== 'string') return headers;
  const header: LogHeader = { request_id: requestId };
  return { ...headers, [contextHeaders.log]: defaultPayloadConverter.toPayload(header)! };
}
