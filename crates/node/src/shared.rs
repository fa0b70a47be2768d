//! What the shards of one process share: read on the path of a packet, written rarely, never locked.

use std::sync::Arc;

use tandem_auth::{Challenger, NonceCounts, Users};
use tandem_registrar::Locations;

/// The location service, the users, and the nonces in use.
#[derive(Debug)]
pub struct Shared {
    /// Who is registered where; the store's writer reads it too.
    pub locations: Arc<Locations>,
    /// Who may register and call.
    pub users: Users,
    /// Mints and reads nonces.
    pub challenger: Challenger,
    /// Which nonce counts were used.
    pub nonce_counts: NonceCounts,
}
