import { z } from 'zod';
import { type ErrorCode, errorCodes } from '../../shared/errors.ts';

const codes = Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]];
const types = [...new Set(Object.values(errorCodes).map((entry) => entry.type))];

/** The error object. */
export const errorObject = z
  .object({
    code: z.enum(codes).meta({ description: 'What went wrong, for programs.', example: 'invalid_request' }),
    type: z
      .enum(types as [string, ...string[]])
      .meta({ description: 'Class of the error.', example: 'invalid_request_error' }),
    message: z.string().meta({
      description: 'Which value was wrong, which rule it breaks, what would be right. For people; may change.',
      example: 'agent_name is required.',
    }),
    param: z
      .string()
      .optional()
      .meta({ description: 'Dotted path of the member or parameter at fault.', example: 'agent_name' }),
    details: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: 'Facts about the refusal, for example every broken policy rule.' }),
    request_id: z.string().optional().meta({
      description: 'The same as the header X-Request-Id; tell it to the operator.',
      example: '0b1d9f0e-6c1f-4f2d-9d3c-0b7f7c4b8a11',
    }),
  })
  .meta({ id: 'Error' });
