/** How a btcd node is asked. */
export interface BtcdAccess {
  /** HTTP; on this machine only. */
  url: string;
  user: string;
  password: string;
}

/** What the node said in place of a result. Codes: `btcjson/jsonrpcerr.go` of btcd, which are those of Bitcoin Core. */
export class BtcdRefused extends Error {
  override name = 'BtcdRefused';
  readonly code: number;
  constructor({ code, message }: { code: number; message: string }) {
    super(message);
    this.code = code;
  }
}

export type BtcdRpc = <T>(method: string, ...params: unknown[]) => Promise<T>;

/** Calls a method of the node by JSON-RPC 1.0. @throws BtcdRefused, and whatever fetch throws */
export function createBtcdRpc({ url, user, password }: BtcdAccess): BtcdRpc {
  const headers = {
    authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    'content-type': 'application/json',
  };
  return async (method, ...params) => {
    const body = JSON.stringify({ jsonrpc: '1.0', id: 1, method, params });
    const response = await fetch(url, { method: 'POST', headers, body });
    const text = await response.text();
    const answer = parse(text) as { result?: unknown; error?: { code: number; message: string } | null } | undefined;
    if (!answer) throw new Error(`btcd answered ${response.status}: ${text.slice(0, 200)}`);
    if (answer.error) throw new BtcdRefused(answer.error);
    return answer.result as never;
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
