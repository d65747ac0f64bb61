import { violatedConstraint } from '../shared/db/pool.ts';
import { PurserError } from '../shared/errors.ts';

/** That another agent of the account has the name. */
export function nameTaken(name: string): PurserError {
  return new PurserError(
    'invalid_request',
    `agent_name ${JSON.stringify(name)} is taken by another agent of this account. Choose another one.`,
    { param: 'agent_name' },
  );
}

/** Whether a statement was refused because another agent has the name: two requests at the same moment. */
export const isNameConflict = (error: unknown): boolean => violatedConstraint(error) === 'agents_name_is_unique';
