import type { CustomSlotSupplier, SlotInfo, WorkerTuner } from '@temporalio/worker';

/** How many tasks of a kind a worker takes from its queue at a time. */
export interface SlotSize {
  readonly queue: string;
  readonly kind: SlotInfo['type'];
  readonly count: number;
}

/** Through which all workers of a process ask for tasks. */
export interface SlotGate {
  /** Slots for one kind of task. @param count tasks at a time */
  slots(count: number): CustomSlotSupplier<SlotInfo>;
  /** Nothing more is asked for. Resolves when all that was asked for has come, or come to nothing. */
  close(): Promise<void>;
}

/**
 * A task that the server gives to a worker that does not ask any more is lost until its timeout. So a process that stops
 * asks for nothing first, and its workers end only when nothing is on its way to them.
 * @param o.tell is told at every question for a task how many there may be, for whoever measures
 */
export function createSlotGate({ tell }: { tell?: (size: SlotSize) => void } = {}): SlotGate {
  const { promise: drained, resolve: drain } = Promise.withResolvers<void>();
  let isClosed = false;
  let asked = 0;

  function look(): void {
    if (isClosed && asked === 0) drain();
  }

  return {
    close() {
      isClosed = true;
      look();
      return drained;
    },
    slots(count) {
      let taken = 0;
      const waiting: (() => void)[] = [];
      const grant = () => {
        taken += 1;
        asked += 1;
        return {};
      };
      const isFree = () => !isClosed && taken < count;
      return {
        type: 'custom',
        reserveSlot: ({ taskQueue: queue, slotType: kind }, abortSignal) =>
          new Promise((resolve, reject) => {
            tell?.({ queue, kind, count });
            const take = () => {
              abortSignal.removeEventListener('abort', leave);
              resolve(grant());
            };
            const leave = () => {
              if (waiting.includes(take)) waiting.splice(waiting.indexOf(take), 1);
              reject(new DOMException('The slot is not needed any more.', 'AbortError'));
            };
            if (abortSignal.aborted) return leave();
            if (isFree()) return resolve(grant());
            abortSignal.addEventListener('abort', leave, { once: true });
            waiting.push(take);
          }),
        tryReserveSlot: () => (isFree() ? grant() : null),
        markSlotUsed() {
          asked -= 1;
          look();
        },
        releaseSlot({ slotInfo }) {
          taken -= 1;
          if (!slotInfo) asked -= 1;
          look();
          if (isFree()) waiting.shift()?.();
        },
      };
    },
  };
}

/** Local activities are not asked for, and nothing else is served here. */
export function tunerFor(
  gate: SlotGate,
  {
    workflowTasks = 1,
    activities,
    localActivities = 1,
  }: { workflowTasks?: number; activities: number; localActivities?: number },
): WorkerTuner {
  return {
    workflowTaskSlotSupplier: gate.slots(workflowTasks),
    activityTaskSlotSupplier: gate.slots(activities),
    localActivityTaskSlotSupplier: { type: 'fixed-size', numSlots: localActivities },
    nexusTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
  };
}
