//! Share repair: threshold many helpers rebuild the share of a party that lost it, none of them learning it. The result
//! is hollow: right, but without the secrets that pairs of parties hold, until a complete refresh.
use dkls23_secp256k1::protocols::repair::{repair_assemble, RepairError, RepairTerm};
use dkls23_secp256k1::protocols::PartyIndex;
use k256::Secp256k1;

use crate::protocol::{compute_eth_address, inbox, input, pi, seal, take, Fault, Msg, PublicKeyPackage, Share};

const PROTO: u8 = 5;

impl From<RepairError> for Fault {
    fn from(e: RepairError) -> Self {
        let of_a_helper = matches!(e, RepairError::ShareMismatch | RepairError::InconsistentTerms);
        Fault {
            kind: if of_a_helper { "recoverable" } else { "input" },
            culprit: None,
            detail: e.to_string(),
        }
    }
}

impl Share {
    /// The one message of this helper, for `target` only. It carries the package that `target` checks the terms by.
    pub fn repair_term(&self, id: &[u8; 32], target: u8, helpers: &[u8]) -> Result<Msg, Fault> {
        if self.is_hollow() {
            return Err(input(None, "a hollow share helps no repair before a complete refresh"));
        }
        let indices = helpers
            .iter()
            .map(|&h| PartyIndex::new(h))
            .collect::<Result<Vec<_>, _>>();
        let indices = indices.map_err(|_| input(None, "helpers: party numbers start at 1"))?;
        let term = self.party.repair_term(&indices, pi(target), id)?;
        let me = self.party.party_index.as_u8();
        Ok(seal(PROTO, 1, me, target, id, &(&term, &self.pkg)))
    }
    /// The hollow share of `party` from the messages of all helpers.
    pub fn assemble(id: &[u8; 32], party: u8, msgs: &[Msg]) -> Result<Share, Fault> {
        let ib = inbox(PROTO, 1, party, id, msgs)?;
        let mut terms = vec![];
        let mut pkgs = vec![];
        for &helper in ib.p2p.keys() {
            let (term, pkg): (RepairTerm<Secp256k1>, PublicKeyPackage) = take(&ib.p2p, helper)?;
            if term.helper.as_u8() != helper {
                return Err(input(Some(helper), "forged inner sender"));
            }
            terms.push(term);
            pkgs.push(pkg);
        }
        let bytes = |p: &PublicKeyPackage| postcard::to_allocvec(p).expect("serialise");
        let pkg = pkgs.pop().ok_or(RepairError::NotEnoughTerms)?;
        if pkgs.iter().any(|p| bytes(p) != bytes(&pkg)) {
            return Err(Fault {
                kind: "recoverable",
                culprit: None,
                detail: "the helpers have different public key packages".into(),
            });
        }
        let party = repair_assemble(&pkg, pi(party), &terms, compute_eth_address)?;
        Ok(Share { party, pkg })
    }
}
