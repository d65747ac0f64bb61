import { createTopUpGas, type TopUpGasDependencies } from './top-up-gas.ts';

/** Activities of queue `wallet` about coins for fees. */
export function createGasActivities(deps: TopUpGasDependencies) {
  return { topUpGas: createTopUpGas(deps) };
}
export type GasActivities = ReturnType<typeof createGasActivities>;
