//! By user: the first stage of two (Singh and Schulzrinne §4.2).
//!
//! The user part decides on a cluster of registrars, the same for every request that names the user, so that no
//! location database is shared. Within the cluster the lowest tier that has an eligible member serves, and the user
//! again decides which. Four ways from user to cluster: Bernstein's hash and SHA-1, mod N, as measured there
//! (§5.3, figure 17); rendezvous, which moves no more than a newcomer's share when a cluster joins; and the first
//! letter, by ranges. A cluster none of whose members is eligible has its users spread over all others until it is
//! back.

use sha1::{Digest, Sha1};
use tandem_base::HashKey;
use tandem_sip::unescape;

use super::race::Race;
use super::spread::mix;
use super::{Pick, Policy};
use crate::members::{Line, Members, name_hash};
use crate::{Letters, Load, PoolSettings, Slot};

/// From user to number, and from number to cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Bernstein,
    Sha1,
    Rendezvous,
    Letter,
}

/// Destinations that serve the same users.
#[derive(Debug)]
struct Cluster {
    name: u64,
    /// The weights of its lowest tier, be they up or down: users don't move because a backup serves.
    weight: u64,
    /// Eligible members, tier by tier.
    tiers: Vec<Race<Slot>>,
}

struct ByUser {
    way: Way,
    letters: Vec<Letters>,
    clusters: Vec<Cluster>,
    /// Clusters by weight, in the order of the configuration.
    line: Line<usize>,
    race: Race<usize>,
}

fn make(settings: &PoolSettings, way: Way) -> Box<dyn Policy> {
    let letters = settings.policy().letters.clone();
    Box::new(ByUser { way, letters, clusters: Vec::new(), line: Line::default(), race: Race::default() })
}

pub(super) fn bernstein(settings: &PoolSettings) -> Box<dyn Policy> {
    make(settings, Way::Bernstein)
}

pub(super) fn sha1(settings: &PoolSettings) -> Box<dyn Policy> {
    make(settings, Way::Sha1)
}

pub(super) fn rendezvous(settings: &PoolSettings) -> Box<dyn Policy> {
    make(settings, Way::Rendezvous)
}

pub(super) fn letter(settings: &PoolSettings) -> Box<dyn Policy> {
    make(settings, Way::Letter)
}

impl ByUser {
    /// A member of the cluster that may serve.
    fn member(&self, cluster: usize, key: u64, pick: &Pick<'_>) -> Option<Slot> {
        let cluster = self.clusters.get(cluster)?;
        cluster.tiers.iter().find_map(|tier| tier.winner(key, |slot| pick.is_free(slot)))
    }

    fn cluster_of_letter(&self, user: &[u8]) -> Option<usize> {
        let first = unescape(user).next()?.to_ascii_lowercase();
        let letters = self.letters.iter().find(|letters| (letters.from..=letters.to).contains(&first))?;
        let name = name_hash(&letters.cluster);
        self.clusters.iter().position(|cluster| cluster.name == name)
    }
}

impl Policy for ByUser {
    fn reshape(&mut self, members: &Members, _: &[Load]) {
        self.clusters.clear();
        let mut grouped: Vec<(u64, Vec<Slot>)> = Vec::new();
        let mut order: Vec<(u64, Slot)> = members
            .iter()
            .filter(|(_, member)| member.belongs && member.weight > 0)
            .map(|(slot, member)| (member.cluster, slot))
            .collect();
        order.sort_unstable();
        for (name, slot) in order {
            match grouped.last_mut() {
                Some((last, slots)) if *last == name => slots.push(slot),
                _ => grouped.push((name, vec![slot])),
            }
        }
        // mod N goes by the order of the configuration.
        grouped.sort_by_key(|(_, slots)| slots.first().copied());
        for (name, slots) in grouped {
            let of = |slot: &Slot| members.get(*slot).map(|member| (*slot, member));
            let mut numbers: Vec<u8> = slots.iter().filter_map(of).map(|(_, member)| member.tier).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let lowest = numbers.first().copied();
            let primaries = slots.iter().filter_map(of).filter(|(_, member)| Some(member.tier) == lowest);
            let weight = primaries.map(|(_, member)| u64::from(member.weight)).sum();
            let tier = |number| {
                let runs = slots.iter().filter_map(of).filter(move |(_, m)| m.tier == number && m.eligible);
                Race::new(runs.map(|(slot, member)| (slot, member.id, u64::from(member.share))))
            };
            self.clusters.push(Cluster { name, weight, tiers: numbers.into_iter().map(tier).collect() });
        }
        self.line = Line::new(self.clusters.iter().map(|cluster| cluster.weight).enumerate());
        let runner = |(index, cluster): (usize, &Cluster)| (index, cluster.name, cluster.weight);
        self.race = Race::new(self.clusters.iter().enumerate().map(runner));
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        let user = pick.choice.user.unwrap_or(pick.choice.call_id);
        let key = match self.way {
            Way::Bernstein => u64::from(bernstein_hash(user)),
            Way::Sha1 => sha1_hash(user),
            Way::Rendezvous | Way::Letter => keyed_hash(pick.key, user),
        };
        let spread = mix(key);
        let home = match self.way {
            Way::Bernstein | Way::Sha1 => self.line.modulo(key),
            Way::Rendezvous => None,
            Way::Letter => self.cluster_of_letter(user),
        };
        home.and_then(|cluster| self.member(cluster, spread, pick)).or_else(|| {
            let alive = |cluster| self.member(cluster, spread, pick).is_some();
            self.member(self.race.winner(spread, alive)?, spread, pick)
        })
    }
}

/// Bernstein's hash: 5381, then times 33 plus each octet.
fn bernstein_hash(user: &[u8]) -> u32 {
    unescape(user).fold(5381, |hash: u32, octet| hash.wrapping_mul(33).wrapping_add(u32::from(octet)))
}

/// The first eight octets of SHA-1 as a number.
fn sha1_hash(user: &[u8]) -> u64 {
    let mut sha1 = Sha1::new();
    unescape(user).for_each(|octet| sha1.update([octet]));
    let digest: [u8; 20] = sha1.finalize().into();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Under the pool's key, escapes resolved.
fn keyed_hash(key: &HashKey, user: &[u8]) -> u64 {
    let mut hasher = key.hasher64();
    let mut length = 0;
    for octet in unescape(user) {
        hasher.bytes(&[octet]);
        length += 1;
    }
    hasher.word(length);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// djb2 of "alice" by hand: 5381 → 177670 → 5863218 → 193486299 → 6385047966 mod 2^32 = 2090080670 → 33·that + 'e'.
    /// SHA-1 of "abc" is a9993e36 4706816a … (FIPS 180-4, appendix).
    #[test]
    fn bernstein_and_sha1_are_what_they_are_called() {
        assert_eq!(bernstein_hash(b""), 5381);
        assert_eq!(bernstein_hash(b"a"), 177_670);
        assert_eq!(bernstein_hash(b"ab"), 5_863_208);
        assert_eq!(sha1_hash(b"abc"), 0xa999_3e36_4706_816a);
    }

    /// RFC 3261 §19.1.4: an escaped character equals the character itself.
    #[test]
    fn an_escaped_user_is_the_same_user() {
        let key = HashKey::from_bytes([7; 16]);
        assert_eq!(bernstein_hash(b"%61lice"), bernstein_hash(b"alice"));
        assert_eq!(sha1_hash(b"%61lice"), sha1_hash(b"alice"));
        assert_eq!(keyed_hash(&key, b"al%69ce"), keyed_hash(&key, b"alice"));
        assert_ne!(keyed_hash(&key, b"Alice"), keyed_hash(&key, b"alice"));
    }
}
