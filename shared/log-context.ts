import { AsyncLocalStorage } from 'node:async_hooks';

/** Ids that say what a line of the log is about: of the request, the payment, the run, the trace. Never a secret. */
export type LogFields = Readonly<Record<string, string | number>>;

const storage = new AsyncLocalStorage<Record<string, string | number>>();

/** Everything that is logged within `work`, also later and by whatever it calls, carries these ids besides. */
export function withLogFields<T>(fields: LogFields, work: () => T): T {
  return storage.run({ ...storage.getStore(), ...fields }, work);
}

/** Adds what became known on the way to every line that follows, where {@link withLogFields} stands around. */
export function noteInLog(fields: LogFields): void {
  const store = storage.getStore();
  if (store) Object.assign(store, fields);
}

/** The ids of now; the same object later holds what {@link noteInLog} has added. */
export function logFields(): LogFields {
  return storage.getStore() ?? {};
}
