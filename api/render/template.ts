import type { PolicyTemplate } from '../../shared/domain/policy-templates.ts';

/** A policy template as on the wire. */
export function renderTemplate(template: PolicyTemplate) {
  return {
    id: template.id,
    name: template.name,
    description: template.description,
    built_in: template.built_in,
    policies: template.policies.map(({ type, rules }) => ({ type, rules })),
    created_at: template.created_at.toISOString(),
    updated_at: template.updated_at.toISOString(),
  };
}
