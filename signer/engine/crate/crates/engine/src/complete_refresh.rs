//! Complete refresh: a key generation whose polynomials have no constant term. It renews every secret that two parties
//! hold between them as well, so it makes a hollow share (see `repair`) whole.
use std::collections::BTreeMap;
use std::sync::Arc;

use dkls23_secp256k1::protocols::dkg::*;
use dkls23_secp256k1::protocols::PartyIndex;
use dkls23_secp256k1::utilities::proofs::DLogProof;
use k256::{Scalar, Secp256k1};
use sha2::{Digest, Sha256};

use crate::protocol::{inbox, input, others, pi, seal, take, Fault, Msg, Share, Step, BROADCAST};

const PROTO: u8 = 4;
const LABEL: &[u8] = b"complete-refresh";

type ZeroKept2 = BTreeMap<PartyIndex, KeepInitZeroSharePhase2to3>;
type ZeroKept3 = BTreeMap<PartyIndex, KeepInitZeroSharePhase3to4>;
type MulKept3 = BTreeMap<PartyIndex, KeepInitMulPhase3to4<Secp256k1>>;

/// Four message rounds: 1 p2p fragments; 2 commitments; 3 openings + OT init; 4 p2p confirmation.
pub struct CompleteRefresh {
    share: Arc<Share>,
    sid: [u8; 32],
    round: u8,
    own_fragment: Scalar,
    correction: Scalar,
    own_pc: Option<ProofCommitment<Secp256k1>>,
    commitments: BTreeMap<u8, [u8; 32]>,
    zero2: ZeroKept2,
    zero_commitments: Vec<TransmitInitZeroSharePhase2to4>,
    kept3: Option<(ZeroKept3, MulKept3)>,
    /// Digest of what two parties sent each other in round 3, by (the other party, sender).
    pair: BTreeMap<(u8, u8), [u8; 32]>,
    new: Option<Share>,
}
impl CompleteRefresh {
    pub fn new(share: Arc<Share>, sid: [u8; 32]) -> Result<(Self, Vec<Msg>), Fault> {
        share.require_root("refreshed")?;
        let fragments = share.party.refresh_complete_phase1();
        let me = share.party.party_index.as_u8();
        let out = others(share.party.parameters.share_count, me)
            .into_iter()
            .map(|j| seal(PROTO, 1, me, j, &sid, &fragments[j as usize - 1]))
            .collect();
        let session = CompleteRefresh {
            own_fragment: fragments[me as usize - 1],
            share,
            sid,
            round: 1,
            correction: Scalar::ZERO,
            own_pc: None,
            commitments: BTreeMap::new(),
            zero2: BTreeMap::new(),
            zero_commitments: vec![],
            kept3: None,
            pair: BTreeMap::new(),
            new: None,
        };
        Ok((session, out))
    }
    /// Any error poisons the session.
    pub fn step(&mut self, msgs: &[Msg]) -> Result<Step<Share>, Fault> {
        let r = match self.round {
            1 => self.commit(msgs),
            2 => self.open(msgs),
            3 => self.finish(msgs),
            4 => self.confirm(msgs),
            _ => Err(input(None, "session is finished or failed")),
        };
        if r.is_err() {
            self.new = None;
            self.round = 99;
        } else {
            self.round += 1;
        }
        r
    }
    fn me(&self) -> u8 {
        self.share.party.party_index.as_u8()
    }
    fn others(&self) -> Vec<u8> {
        others(self.share.party.parameters.share_count, self.me())
    }
    /// Fragments in, commitments out: the proofs themselves are opened in round 3.
    fn commit(&mut self, msgs: &[Msg]) -> Result<Step<Share>, Fault> {
        let (me, sid) = (self.me(), self.sid);
        let ib = inbox(PROTO, 1, me, &sid, msgs)?;
        let mut fragments = vec![self.own_fragment];
        for j in self.others() {
            fragments.push(take::<Scalar>(&ib.p2p, j)?);
        }
        let (correction, pc, zero, tx) = self.share.party.refresh_complete_phase2(&sid, &fragments);
        let mut out: Vec<Msg> = tx
            .iter()
            .map(|t| seal(PROTO, 2, me, t.parties.receiver.as_u8(), &sid, t))
            .collect();
        out.push(seal(PROTO, 2, me, BROADCAST, &sid, &pc.commitment));
        self.correction = correction;
        self.own_pc = Some(pc);
        self.zero2 = zero;
        Ok(Step { out, done: None })
    }
    fn open(&mut self, msgs: &[Msg]) -> Result<Step<Share>, Fault> {
        let (me, sid) = (self.me(), self.sid);
        let ib = inbox(PROTO, 2, me, &sid, msgs)?;
        for j in self.others() {
            let t: TransmitInitZeroSharePhase2to4 = take(&ib.p2p, j)?;
            if t.parties.sender.as_u8() != j || t.parties.receiver.as_u8() != me {
                return Err(input(Some(j), "forged inner sender"));
            }
            self.zero_commitments.push(t);
            self.commitments.insert(j, take(&ib.bc, j)?);
        }
        let zero2 = std::mem::take(&mut self.zero2);
        let (zero_kept, zero, mul_kept, mul) = self.share.party.refresh_complete_phase3(&sid, &zero2);
        let mut out = vec![];
        for j in self.others() {
            let z = zero.iter().find(|z| z.parties.receiver.as_u8() == j).unwrap();
            let m = mul.iter().find(|m| m.parties.receiver.as_u8() == j).unwrap();
            let sealed = seal(PROTO, 3, me, j, &sid, &(z, m));
            self.pair.insert((j, me), Sha256::digest(&sealed.body).into());
            out.push(sealed);
        }
        out.push(seal(
            PROTO,
            3,
            me,
            BROADCAST,
            &sid,
            &self.own_pc.as_ref().unwrap().proof,
        ));
        self.kept3 = Some((zero_kept, mul_kept));
        Ok(Step { out, done: None })
    }
    fn finish(&mut self, msgs: &[Msg]) -> Result<Step<Share>, Fault> {
        let (me, sid) = (self.me(), self.sid);
        let ib = inbox(PROTO, 3, me, &sid, msgs)?;
        let mut pcs = vec![self.own_pc.take().unwrap()];
        let (mut zero, mut mul) = (vec![], vec![]);
        for j in self.others() {
            let (z, m): (TransmitInitZeroSharePhase3to4, TransmitInitMulPhase3to4<Secp256k1>) = take(&ib.p2p, j)?;
            let forged =
                |p: &dkls23_secp256k1::protocols::PartiesMessage| p.sender.as_u8() != j || p.receiver.as_u8() != me;
            if forged(&z.parties) || forged(&m.parties) {
                return Err(input(Some(j), "forged inner sender"));
            }
            zero.push(z);
            mul.push(m);
            let received = msgs.iter().find(|m| m.from == j && m.to == me).unwrap();
            self.pair.insert((j, j), Sha256::digest(&received.body).into());
            let proof: DLogProof<Secp256k1> = take(&ib.bc, j)?;
            pcs.push(ProofCommitment {
                index: pi(j),
                proof,
                commitment: self.commitments[&j],
            });
        }
        let (zero_kept, mul_kept) = self.kept3.take().unwrap();
        let party = self.share.party.refresh_complete_phase4(
            &sid,
            &self.correction,
            &pcs,
            &zero_kept,
            &self.zero_commitments,
            &zero,
            &mul_kept,
            &mul,
        )?;
        let pkg = self
            .share
            .pkg
            .refresh(&sid, &pcs)
            .map_err(|r| input(None, r.to_string()))?;
        self.new = Some(Share { party, pkg });
        let out = self
            .others()
            .into_iter()
            .map(|j| seal(PROTO, 4, me, j, &sid, &self.outcome(j)))
            .collect();
        Ok(Step { out, done: None })
    }
    /// What this party and `j` must agree on: the new share's public side, and what they sent each other in round 3.
    /// Nothing else binds the whole of that, and a difference would only show when the two sign, as a fault of one of them.
    fn outcome(&self, j: u8) -> [u8; 32] {
        let mut h = Sha256::new();
        h.update(self.new.as_ref().unwrap().outcome(LABEL));
        for ((_, sender), digest) in self.pair.range((j, 0)..=(j, u8::MAX)) {
            h.update([*sender]);
            h.update(digest);
        }
        h.finalize().into()
    }
    fn confirm(&mut self, msgs: &[Msg]) -> Result<Step<Share>, Fault> {
        let ib = inbox(PROTO, 4, self.me(), &self.sid, msgs)?;
        for j in self.others() {
            if take::<[u8; 32]>(&ib.p2p, j)? != self.outcome(j) {
                return Err(Fault {
                    kind: "recoverable",
                    culprit: None,
                    detail: format!("the refresh came out differently at party {j}"),
                });
            }
        }
        Ok(Step {
            out: vec![],
            done: self.new.take(),
        })
    }
}
