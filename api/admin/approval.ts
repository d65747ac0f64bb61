import { z } from 'zod';
import { getApproval } from '../../shared/db/approvals.ts';
import { renderApproval } from '../../shared/render-approval.ts';
import { answerRefusal } from '../operations/answer-refusal.ts';
import { type Answer, decideApprovals } from '../operations/decide-approval.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Command, Commands, Work } from './command.ts';
import { emailOption, idOption, reasonOption } from './options.ts';
import { withGateway } from './with-gateway.ts';

const options = z.object({
  id: idOption('ID', { prefix: 'apr', what: 'approval' }),
  as: emailOption('--as', { use: 'the e-mail address of the approver for whom you decide' }),
  reason: reasonOption('why you decide for the approver; it is kept with the decision'),
});

function decide(decision: Answer['decision']): Command {
  return {
    options: { as: 'EMAIL', reason: 'TEXT' },
    required: ['as', 'reason'],
    positional: 'id',
    prepare: (values) => prepareDecision(decision, values),
  };
}

export const approvalCommands: Commands = {
  'approval approve': decide('approved'),
  'approval reject': decide('rejected'),
};

/**
 * What `approval approve|reject` does: an operator decides for an approver who cannot, through the same door as everybody.
 * @returns the work, once the command line has been read
 */
function prepareDecision(decision: Answer['decision'], values: unknown): Work {
  const { id, as: approver, reason } = options.parse(values);
  return async ({ pool, config }) => {
    if (config.operatorApprovals === 'off')
      throw new UsageError(
        `Operators decide nothing in this ${config.environment} service. PURSER_OPERATOR_APPROVALS=on allows it.`,
      );
    const question = await getApproval(pool, { id });
    if (!question) throw new UsageError(`There is no approval ${id}.`);
    const answer = { approvalId: id, agentId: question.agent_id, approver, decision, note: reason };
    const door = { via: 'operator', operator: operatorName() } as const;
    const lost = 'Temporal was not told; the payment finds the decision by itself within 15 seconds.';
    return withGateway(config, { lost }, async ({ tellAnswer }) => {
      const result = await decideApprovals({ pool, tellAnswer }, { answers: [answer], door });
      if ('refusal' in result) throw new UsageError(answerRefusal(result, { approver }).message);
      return renderApproval(result.approvals[0]!);
    });
  };
}
