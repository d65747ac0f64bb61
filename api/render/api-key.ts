import type { ApiKeyRow } from '../../shared/db/api-keys.ts';
import { renderApiKey } from '../../shared/render-api-key.ts';
import { usableScopes } from '../key-scopes.ts';

/** Age after which a key should be replaced. */
const rotationDays = 90;

/** As on the wire, with the scopes that hold. */
export function showApiKey(row: ApiKeyRow) {
  return renderApiKey(row, { usable: usableScopes({ agentId: row.agent_id }) });
}

/** In a list. */
export function showListedApiKey(row: ApiKeyRow) {
  return { ...showApiKey(row), warning: row.age_days > rotationDays ? tooOld(row) : null };
}

function tooOld({ name, age_days: days }: ApiKeyRow): string {
  return `${JSON.stringify(name)} is ${days} days old; replace keys at least every ${rotationDays} days. Make a new one, deploy it, see that it works, then delete this one.`;
}
