import type { FreezeState } from '../shared/domain/freeze.ts';
import { readFreezeOrder } from '../shared/freeze-order.ts';
import type { FreezeStore, OperatorFreeze } from './store/freezes.ts';

/** Whose wallet it is that would pay. */
export interface WalletOwner {
  readonly accountId: string;
  readonly agentId: string;
}

/** What one signer knows to be frozen, in words short enough for a status. */
export interface FreezeStatus {
  /** Of the newest order of the policy step; 0: there was none. */
  version: number;
  installation: boolean;
  /** How many are frozen. */
  accounts: number;
  agents: number;
  /** Null: the operator has not frozen this signer. */
  operator: OperatorFreeze | null;
}

/** What is frozen here: on disk, and in memory because every signature asks. */
export interface FreezeBook {
  /** What the policy step said last. */
  state(): FreezeState;
  /** Takes an order that was verified, if it is newer than what is known. Durable on return. */
  take(p: { state: FreezeState; document: string }): void;
  operator(): OperatorFreeze | undefined;
  /** @param reason null: the operator lifts his freeze. Durable on return. */
  setOperator(reason: string | null): void;
  /** @returns what is frozen of it, as the beginning of a sentence; undefined where it may be signed for */
  blocking(owner: WalletOwner): string | undefined;
  status(): FreezeStatus;
}

const nothing: FreezeState = { version: 0, installation: false, accounts: [], agents: [] };

export function createFreezeBook({ store }: { store: FreezeStore }): FreezeBook {
  const stored = store.getFreezeOrder();
  let known = index(stored ? readFreezeOrder(stored.document) : nothing);
  let operator = store.getOperatorFreeze();
  return {
    state: () => known.state,
    take({ state, document }) {
      if (state.version <= known.state.version) return;
      store.putFreezeOrder({ version: state.version, document });
      known = index(state);
    },
    operator: () => operator,
    setOperator(reason) {
      store.putOperatorFreeze({ reason });
      operator = store.getOperatorFreeze();
    },
    blocking({ accountId, agentId }) {
      if (operator) return `this signer was frozen by its operator (${operator.reason})`;
      if (known.state.installation) return 'the installation is frozen';
      if (known.accounts.has(accountId)) return `account ${accountId} is frozen`;
      if (known.agents.has(agentId)) return `agent ${agentId} is frozen`;
      return undefined;
    },
    status() {
      const { version, installation } = known.state;
      const { accounts, agents } = known;
      return { version, installation, accounts: accounts.size, agents: agents.size, operator: operator ?? null };
    },
  };
}

function index(state: FreezeState) {
  return { state, accounts: new Set(state.accounts), agents: new Set(state.agents) };
}
