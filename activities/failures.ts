import { ApplicationFailure } from '@temporalio/common';

/** A row that a workflow names and the database does not have: no repeat will find it. */
export function notFound(what: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(`${what} does not exist.`, 'NotFound');
}

/** A state that the code excludes; a bug of ours, kept for a person to look at. */
export function impossible(message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, 'ImpossibleState');
}
