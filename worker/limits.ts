/** Activities under way may end before the process does; after that they are cancelled and repeated elsewhere. */
export const shutdownGraceTime = '30s';

/** Polls grow with the load instead of being held open in advance. */
export const autoscalingPollers = { type: 'autoscaling', initial: 2, minimum: 1, maximum: 20 } as const;
