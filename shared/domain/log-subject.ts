/** What an id is called in a log, by its prefix. */
const names = {
  tx: 'transaction_id',
  led: 'ledger_id',
  sess: 'session_id',
  dlv: 'delivery_id',
  apr: 'approval_id',
  acct: 'account_id',
} as const;

const idWithin = /(?:^|\/)((tx|led|sess|dlv|apr|acct)_[0-9a-z]{26})(?:$|\/)/;

/** What a workflow or a path is about, as logs and traces name it: `tx_…` and `/transactions/tx_…/cancel` are a transaction. */
export function logSubject(text: string): Readonly<Record<string, string>> {
  const [, id, prefix] = idWithin.exec(text) ?? [];
  return id === undefined ? {} : { [names[prefix as keyof typeof names]]: id };
}
