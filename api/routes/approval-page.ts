import { type Request, type Response, Router } from 'express';
import { hashApprovalToken } from '../../shared/approval-token.ts';
import type { Registry } from '../../shared/chain/registry.ts';
import { type ApprovalLinkRow, findApprovalLink } from '../../shared/db/approval-links.ts';
import { getApproval, type ShownApproval } from '../../shared/db/approvals.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { isConnectionError } from '../../shared/db/pool.ts';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { type Origin, originOf } from '../acting.ts';
import { type DecideDependencies, decideApprovals, type Refusal } from '../operations/decide-approval.ts';
import { askingPage, type FormFault } from '../pages/asking-page.ts';
import {
  foreignFormPage,
  unavailablePage,
  uncertainPage,
  unknownLinkPage,
  wrongMethodPage,
} from '../pages/message-page.ts';
import { outcomePage } from '../pages/outcome-page.ts';
import { type FormAnswer, readForm } from '../pages/read-form.ts';
import { ownDecision, standingOf } from '../pages/standing.ts';
import { contentSecurityPolicy } from '../pages/style.ts';
import { createReadBytes } from '../read-bytes.ts';

/** A note of the longest kind takes 13 KiB; one that is too long by far comes back to be shortened. */
const maxFormBytes = 64 * 1024;
/** Seconds after which a repeat may succeed. */
const retryAfterSeconds = 30;

const readBytes = createReadBytes({ maxBytes: maxFormBytes });

export interface ApprovalPageDependencies extends DecideDependencies {
  readonly registry: Registry;
}

/** A link that exists, with its question as it is now. */
interface Opened {
  readonly token: string;
  readonly tokenHash: Buffer;
  readonly link: ApprovalLinkRow;
  readonly approval: ShownApproval;
}

/**
 * `/approve/TOKEN`: the page that the link in an approver's mail opens. Opening decides nothing, whoever opens it: mail
 * programs and virus scanners do. Only its form decides.
 */
export function createApprovalPageRouter(deps: ApprovalPageDependencies): Router {
  const router = Router({ caseSensitive: true });
  router.use('/approve', async (request, response) => {
    setHeaders(response);
    try {
      await answer(deps, request, response);
    } catch (error) {
      answerFailure(response, { error, page: unavailablePage });
    }
  });
  return router;
}

/** Whoever reads over the approver's shoulder, history and referrer included, must not learn the link. */
function setHeaders(response: Response): void {
  response.setHeader('Content-Security-Policy', contentSecurityPolicy);
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('X-Robots-Tag', 'noindex, nofollow');
}

async function answer(deps: ApprovalPageDependencies, request: Request, response: Response): Promise<void> {
  const { method } = request;
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST') {
    response.setHeader('Allow', 'GET, HEAD, POST');
    send(response, 405, wrongMethodPage);
    return;
  }
  if (method === 'POST' && isForeign(request)) {
    send(response, 403, foreignFormPage);
    return;
  }
  const token = request.path.slice(1);
  const opened = await open(deps, token.replace(/\/$/, ''));
  if (!opened) send(response, 404, unknownLinkPage);
  else if (token.endsWith('/')) redirect(response, 308, `../${opened.token}`);
  else if (method === 'POST') await take(deps, opened, request, response);
  else await show(deps, opened, response, {});
}

/** Links that are cut off, changed or made up are all the same: unknown. */
async function open({ pool }: ApprovalPageDependencies, token: string): Promise<Opened | undefined> {
  const tokenHash = hashApprovalToken(token);
  const link = tokenHash && (await findApprovalLink(pool, { tokenHash }));
  const approval = link && (await getApproval(pool, { id: link.approval_id }));
  return approval && { token, tokenHash: tokenHash!, link, approval };
}

async function show(
  { pool, registry }: ApprovalPageDependencies,
  { token, link: { approver }, approval }: Opened,
  response: Response,
  { status, fault, refused = false }: { status?: number; fault?: FormFault; refused?: boolean },
): Promise<void> {
  const asked = { approval, approver, chain: registry.chain(approval.chain), now: await databaseClock(pool) };
  const standing = standingOf(asked);
  if (standing === 'asked') send(response, status ?? 200, askingPage(asked, { action: token, fault }));
  else send(response, status ?? (standing === 'not_approver' ? 403 : 200), outcomePage(asked, standing, { refused }));
}

async function take(
  deps: ApprovalPageDependencies,
  opened: Opened,
  request: Request,
  response: Response,
): Promise<void> {
  const form = await readAnswer(request, response);
  if ('fault' in form) {
    await show(deps, opened, response, { status: 400, fault: form.fault });
    return;
  }
  let result: Awaited<ReturnType<typeof decide>>;
  try {
    result = await decide(deps, opened, { given: form.answer, origin: originOf(request, response) });
  } catch (error) {
    answerFailure(response, { error, page: uncertainPage(opened.token) });
    return;
  }
  // The same answer once more, as of a second press of the button, is no other than the first.
  if (!('refusal' in result) || isRepeat(result, opened, form.answer)) redirect(response, 303, opened.token);
  else
    await show(deps, { ...opened, approval: result.approval }, response, {
      status: refusalStatuses[result.refusal],
      refused: true,
    });
}

const refusalStatuses: Readonly<Record<Refusal['refusal'], number>> = {
  not_approver: 403,
  already_decided: 409,
  decided_before: 409,
  expired: 400,
  not_yet: 409,
};

function decide(
  deps: DecideDependencies,
  { approval, link, tokenHash }: Opened,
  { given, origin }: { given: FormAnswer; origin: Origin },
) {
  const answer = { approvalId: approval.id, agentId: approval.agent_id, approver: link.approver, ...given };
  return decideApprovals(deps, { answers: [answer], door: { via: 'link', tokenHash, origin } });
}

function isRepeat({ approval }: Refusal, { link }: Opened, { decision }: FormAnswer): boolean {
  return ownDecision({ approval, approver: link.approver })?.decision === decision;
}

async function readAnswer(request: Request, response: Response): Promise<ReturnType<typeof readForm>> {
  try {
    return readForm({ contentType: request.get('content-type'), body: await readBytes(request, response) });
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return { fault: { field: 'note', message: 'The note is too long by far, or it did not arrive whole.', note: '' } };
  }
}

/**
 * Whether a form comes from another site. Browsers say so by Sec-Fetch-Site; those too old for it by Origin, which is
 * `null` from our own page as well, because that sends no referrer. Whoever has no token can do nothing here either way.
 * @see https://www.w3.org/TR/fetch-metadata/
 */
function isForeign(request: Request): boolean {
  const site = request.get('sec-fetch-site');
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true;
  const origin = request.get('origin');
  if (origin === undefined || origin === 'null' || site === 'same-origin') return false;
  return !URL.canParse(origin) || new URL(origin).host !== request.get('host');
}

function answerFailure(response: Response, { error, page }: { error: unknown; page: string }): void {
  const isOutage = isConnectionError(error);
  const log = response.locals.log as Logger;
  log.error({ err: error }, isOutage ? 'the approval page cannot reach the database' : 'the approval page failed');
  if (response.headersSent) {
    response.destroy();
    return;
  }
  if (isOutage) response.setHeader('Retry-After', String(retryAfterSeconds));
  send(response, isOutage ? 503 : 500, page);
}

function send(response: Response, status: number, page: string): void {
  response.status(status).type('html').send(page);
}

/** A relative address: whatever a proxy has put before our path stays. */
function redirect(response: Response, status: 303 | 308, location: string): void {
  response.status(status).setHeader('Location', location);
  response.end();
}
