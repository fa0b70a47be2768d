//! Small UDP relays that lose datagrams: the network between caller, balancer and destinations.
//!
//! Each has one port. What comes from its far end goes to its near end: the balancer, or the caller that was heard of
//! last. Everything else goes to the far end. Left out: delay, and order that changes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use tandem_base::Rng;

use crate::witness::{Place, Witness};

/// How often an idle relay looks whether it shall end.
const IDLE: Duration = Duration::from_millis(200);
const BUFFER: usize = 8 << 20;

/// What all relays have passed on, and what they have lost.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) datagrams: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// What relays share.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) passed: Arc<Passed>,
    pub(crate) witness: Arc<Mutex<Witness>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Share of datagrams that is lost, each way.
    pub(crate) loss: f64,
    pub(crate) seed: u64,
}

impl Network {
    /// Opens a relay at `listen` to `far`; between the balancer and `place` if that is a destination.
    pub(crate) fn open(
        &self,
        listen: SocketAddr,
        far: SocketAddr,
        place: Option<(Place, SocketAddr)>,
    ) -> io::Result<JoinHandle<()>> {
        let socket = UdpSocket::bind(listen)?;
        socket.set_read_timeout(Some(IDLE))?;
        if set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            set_socket_recv_buffer_size(&socket, BUFFER)?; // without privilege, up to net.core.rmem_max
        }
        let network = self.clone();
        let dice = Rng::from_seed(self.seed.wrapping_mul(31).wrapping_add(u64::from(listen.port())));
        Ok(spawn(move || network.relay(&socket, far, place, dice)))
    }

    fn relay(
        &self,
        socket: &UdpSocket,
        far: SocketAddr,
        between: Option<(Place, SocketAddr)>,
        mut dice: Rng,
    ) {
        let (place, balancer) = between.unzip();
        let mut caller = None;
        let mut buffer = [0; 65_535];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            let datagram = buffer.get(..length).unwrap_or_default();
            let lost = dice.f64() < self.loss;
            let to = if from == far {
                balancer.or(caller)
            } else {
                caller = Some(from);
                Some(far)
            };
            if let Some(place) = place {
                let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
                if from == far {
                    witness.from(place, datagram, lost);
                } else {
                    witness.to(place, datagram);
                }
            }
            self.passed.datagrams.fetch_add(1, Ordering::Relaxed);
            if lost {
                self.passed.lost.fetch_add(1, Ordering::Relaxed);
            } else if let Some(to) = to {
                // Nobody there, or no room: lost, as in a network.
                let _ = socket.send_to(datagram, to);
            }
        }
    }
}
