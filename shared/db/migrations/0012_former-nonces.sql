-- Up Migration

-- Nonces of authorisations that a payment had and gave up, oldest first, the newest 16: the signers may have recorded one
-- of them for the payment, and sign another one only by a receipt that names it.
alter table x402_payments add column former_nonces text[] not null default '{}';
