import { approvalPath, makeApprovalToken } from '../../../shared/approval-token.ts';
import { insertApprovalLink } from '../../../shared/db/approval-links.ts';
import { getApproval, type ShownApproval } from '../../../shared/db/approvals.ts';
import type { TestAccount, TestApi } from './harness.ts';
import { type Asked, askPeople, type Demand } from './questions.ts';

export const maria = 'maria@northwind.example';
export const ben = 'ben@northwind.example';

/** A question that is asked by mail. */
export interface MailedQuestion extends Asked {
  /** A new link of one person, by default the first. */
  link(approver?: string): Promise<{ token: string; url: string }>;
  /** As it is stored now. */
  now(): Promise<ShownApproval>;
}

/** Asks two people, with a memo that looks like markup and like a link. */
export async function askByMail(
  api: TestApi,
  account: TestAccount,
  demand: Partial<Demand> = {},
): Promise<MailedQuestion> {
  const asked = await askPeople(api, account, [{ approvers: [maria, ben], ...demand }]);
  await api.pool.query('update transactions set memo = $2, amount_minor = $3 where id = $1', [
    asked.transactionId,
    'Invoice 2026-1187, <b>hosting</b> for November.\nSee https://evil.example',
    '12500500000',
  ]);
  return {
    ...asked,
    async link(approver = maria) {
      const { token, hash } = makeApprovalToken();
      await insertApprovalLink(api.pool, { tokenHash: hash, approvalId: asked.approvalId, approver });
      return { token, url: api.url + approvalPath(token) };
    },
    now: async () => (await getApproval(api.pool, { id: asked.approvalId }))!,
  };
}

type Body = NonNullable<RequestInit['body']>;

export const form = (fields: Record<string, string>) => new URLSearchParams(fields);

/** Sends a form, and does not follow the answer. */
export const post = (url: string, body: Body, headers: Record<string, string> = {}) =>
  fetch(url, { method: 'POST', body, headers, redirect: 'manual' });
