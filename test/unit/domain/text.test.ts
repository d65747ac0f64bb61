import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseText } from '../../../shared/domain/text.ts';

const rule = { minLength: 1, maxLength: 10 };

describe('text', () => {
  it('is brought into NFC', () => {
    expect(normaliseText('e\u0301', rule)).toEqual({ text: '\u00e9' });
  });

  it('is measured in code points after normalisation', () => {
    expect(normaliseText('𝔪'.repeat(10), rule)).toEqual({ text: '𝔪'.repeat(10) });
    expect(normaliseText('e\u0301'.repeat(10), rule)).toEqual({ text: 'é'.repeat(10) });
    expect(normaliseText('𝔪'.repeat(11), rule)).toEqual({ fault: 'too_long' });
    expect(normaliseText('', rule)).toEqual({ fault: 'too_short' });
  });

  it.each(['\0', '\u001b', '\u007f', '\u0085', '\u009f', '\r'])('never holds the control character %j', (character) => {
    expect(normaliseText(`a${character}`, rule)).toEqual({ fault: 'control_character' });
    expect(normaliseText(`a${character}`, { ...rule, multiline: true })).toEqual({ fault: 'control_character' });
  });

  it('holds newline and tab only where lines are wanted', () => {
    expect(normaliseText('a\n\tb', rule)).toEqual({ fault: 'control_character' });
    expect(normaliseText('a\n\tb', { ...rule, multiline: true })).toEqual({ text: 'a\n\tb' });
  });

  it.each(['\ud800', 'a\udc00b', '\udc00\ud800'])('never holds an unpaired surrogate', (text) => {
    expect(normaliseText(text, rule)).toEqual({ fault: 'unpaired_surrogate' });
  });

  it('is the same when it is brought into form again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const first = normaliseText(text, { maxLength: 100, multiline: true });
        if ('text' in first) expect(normaliseText(first.text, { maxLength: 100, multiline: true })).toEqual(first);
      }),
    );
  });
});
