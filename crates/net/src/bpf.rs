//! The kernel's half of the steering: a program at the `SO_REUSEPORT` group of one address.
//!
//! Needs `CAP_BPF`, and clang at build time. Without either nothing is lost but a copy: shards hand over.

use crate::{Steering, UdpSocket};

/// Why the kernel does not steer, to be said once at start-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SteerError {
    /// This program was built without clang or libbpf's headers.
    NotBuilt,
    /// The kernel refused, mostly for want of `CAP_BPF`; in its words.
    Refused(String),
}

impl core::fmt::Display for SteerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotBuilt => f.write_str("built without clang"),
            Self::Refused(reason) => write!(f, "the kernel refuses: {reason}"),
        }
    }
}

impl core::error::Error for SteerError {}

/// Lets the kernel give each datagram to the socket whose place in `sockets` is the owner of its Call-ID.
///
/// `sockets` share one address, one for each shard in the order of their numbers. It holds until the last of them is
/// closed. What the kernel does not find ([`Steering::owner`] looks further) is spread by source address as before.
///
/// # Errors
///
/// [`SteerError`]; the sockets are then as they were.
pub fn steer_in_kernel(sockets: &[&UdpSocket], steering: &Steering) -> Result<(), SteerError> {
    imp::steer(sockets, steering)
}

#[cfg(not(steer_bpf))]
mod imp {
    use super::{SteerError, Steering, UdpSocket};

    pub(super) fn steer(_: &[&UdpSocket], _: &Steering) -> Result<(), SteerError> {
        Err(SteerError::NotBuilt)
    }
}

#[cfg(steer_bpf)]
mod imp {
    use std::os::fd::AsFd;

    use aya::maps::ReusePortSockArray;
    use aya::programs::SkReuseport;
    use aya::{EbpfLoader, include_bytes_aligned};

    use super::{SteerError, Steering, UdpSocket};

    static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));

    pub(super) fn steer(sockets: &[&UdpSocket], steering: &Steering) -> Result<(), SteerError> {
        try_steer(sockets, steering).map_err(|error| {
            // The innermost cause is what the kernel said; the layers above name our own calls.
            let mut cause: &dyn core::error::Error = &*error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            SteerError::Refused(cause.to_string())
        })
    }

    fn try_steer(sockets: &[&UdpSocket], steering: &Steering) -> Result<(), Box<dyn core::error::Error>> {
        let [low, high] = steering.words();
        let shards = steering.shards();
        let mut program = EbpfLoader::new()
            .override_global("key0", &low, true)
            .override_global("key1", &high, true)
            .override_global("shards", &shards, true)
            .load(OBJECT)?;
        let map = program.map_mut("sockets").ok_or("no socket map")?;
        let mut map = ReusePortSockArray::try_from(map)?;
        for (index, socket) in sockets.iter().enumerate() {
            map.set(u32::try_from(index)?, &socket.as_fd(), 0)?;
        }
        let steer: &mut SkReuseport = program.program_mut("steer").ok_or("no program")?.try_into()?;
        steer.load()?;
        let first = sockets.first().ok_or("no socket")?;
        Ok(steer.attach(first)?)
    }
}
