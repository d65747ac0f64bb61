import type { LogLevel, LogMetadata, Logger as TemporalLogger } from '@temporalio/worker';
import { logSubject } from '../shared/domain/log-subject.ts';
import type { Logger } from '../shared/log.ts';

const levels = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** What is heard again sooner is the same trouble, which goes on; what comes after such a silence is news. */
const silenceMs = 5 * 60_000;
/** Different troubles that are remembered. */
const maxTroubles = 100;

/**
 * Lets the SDK write into the process's own log, with the payment that a line is about. What is repeated until it works is
 * told when it begins: further attempts of an activity are for debugging, and troubles with the connection are told once.
 */
export function createTemporalLogger(logger: Logger, { now = Date.now }: { now?: () => number } = {}): TemporalLogger {
  const isNews = createNews(now);
  const write = (level: LogLevel, message: string, meta?: LogMetadata) => {
    // Task tokens say nothing to a reader; of an error only its words are kept.
    const { error, taskToken: _, ...rest } = meta ?? {};
    const isTrouble = level === 'WARN' || level === 'ERROR';
    const repeated = isTrouble && rest.sdkComponent === 'core' ? isNews(`${level} ${message}`) : 0;
    if (repeated === undefined) return;
    const isRepeat = isTrouble && rest.activityType !== undefined && Number(rest.attempt) > 1;
    logger[isRepeat || isPlaceGivenBack(message, error) ? 'debug' : levels[level]](
      {
        ...rest,
        ...logSubject(String(rest.workflowId ?? '')),
        ...(error === undefined ? {} : { error: String(error) }),
        ...(repeated > 0 && { repeated }),
      },
      message,
    );
  };
  return {
    log: write,
    trace: (message, meta) => write('TRACE', message, meta),
    debug: (message, meta) => write('DEBUG', message, meta),
    info: (message, meta) => write('INFO', message, meta),
    warn: (message, meta) => write('WARN', message, meta),
    error: (message, meta) => write('ERROR', message, meta),
  };
}

/** A worker that stops asks for no more: the SDK calls every place that waited for a task (slot-gate.ts) an error. */
function isPlaceGivenBack(message: string, error: unknown): boolean {
  return message.includes('custom slot supplier') && error instanceof Error && error.name === 'AbortError';
}

/** @returns how often a trouble was not told since it was told last; undefined: it goes on, and is not told */
function createNews(now: () => number): (trouble: string) => number | undefined {
  const troubles = new Map<string, { heardMs: number; untold: number }>();
  return (text) => {
    // Counters and durations in the words do not make it another trouble.
    const trouble = text.replaceAll(/\d+/g, '#');
    const known = troubles.get(trouble);
    troubles.delete(trouble);
    const goesOn = known !== undefined && now() - known.heardMs < silenceMs;
    troubles.set(trouble, { heardMs: now(), untold: goesOn ? known.untold + 1 : 0 });
    if (troubles.size > maxTroubles) troubles.delete(troubles.keys().next().value!);
    return goesOn ? undefined : (known?.untold ?? 0);
  };
}
