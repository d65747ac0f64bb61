/**
 * Activities under way may end before the process does; after that they are told, and repeated elsewhere. Longer than
 * any that a payment waits for, and within the 30 s that the process has (shared/stop-signal.ts).
 */
export const shutdownGraceTime = '25s';

/** Polls grow with the load instead of being held open in advance. */
export const autoscalingPollers = { type: 'autoscaling', initial: 2, minimum: 1, maximum: 20 } as const;
