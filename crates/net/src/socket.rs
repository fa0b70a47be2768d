//! One UDP socket and how it is set up.
//!
//! A socket bound to a wildcard address asks for the local address of each datagram, so that answers can leave from
//! it (RFC 3261 §18.2.2); a socket bound to one address needs not and saves the work. IPv6 sockets take IPv6 only:
//! one listener, one family. A socket that has its address to itself takes trains of datagrams whole (`UDP_GRO`); one
//! that shares it does not, since a train goes to one socket, whatever the Call-IDs in it.

use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// How a UDP socket is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpOptions {
    /// Several sockets may share the address (`SO_REUSEPORT`), one per shard.
    pub reuse_port: bool,
    /// Receive buffer in bytes, as the kernel counts it (a 600-byte message takes about 1,300). `net.core.rmem_max`
    /// limits it unless the process may override that (`CAP_NET_ADMIN`).
    pub receive_buffer_bytes: usize,
    /// Send buffer in bytes; `net.core.wmem_max` limits it in the same way.
    pub send_buffer_bytes: usize,
    /// Binds an address that this host does not have yet, such as a virtual IP that may move here (`IP_FREEBIND`).
    pub free_bind: bool,
}

impl Default for UdpOptions {
    /// Buffers for a burst of about 3,000 messages; one socket per address.
    fn default() -> Self {
        Self {
            reuse_port: false,
            receive_buffer_bytes: 4 * 1024 * 1024,
            send_buffer_bytes: 1024 * 1024,
            free_bind: false,
        }
    }
}

/// A bound UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    local: SocketAddr,
}

impl UdpSocket {
    /// Binds `address`; port 0 lets the kernel choose.
    ///
    /// # Errors
    ///
    /// What the kernel says: the address is taken, not ours (see [`UdpOptions::free_bind`]), or needs a privilege.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        set_buffer(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, options.receive_buffer_bytes)?;
        set_buffer(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.send_buffer_bytes)?;
        let on = |level, option| sys::set_option(socket.as_fd(), level, option, 1);
        on(libc::SOL_SOCKET, libc::SO_RXQ_OVFL)?;
        if !options.reuse_port {
            // A kernel that does not know it hands over datagrams one by one.
            let _ = on(libc::SOL_UDP, libc::UDP_GRO);
        }
        let wildcard = address.ip().is_unspecified();
        if address.is_ipv4() {
            on(libc::IPPROTO_IP, libc::IP_RECVERR)?;
            set_fragmenting(&socket, false)?;
            if wildcard {
                on(libc::IPPROTO_IP, libc::IP_PKTINFO)?;
            }
            if options.free_bind {
                on(libc::IPPROTO_IP, libc::IP_FREEBIND)?;
            }
        } else {
            socket.set_only_v6(true)?;
            on(libc::IPPROTO_IPV6, libc::IPV6_RECVERR)?;
            if wildcard {
                on(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?;
            }
            if options.free_bind {
                on(libc::IPPROTO_IPV6, libc::IPV6_FREEBIND)?;
            }
        }
        socket.bind(&address.into())?;
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { socket, local })
    }

    /// The address it is bound to, with the port the kernel chose.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Whether it is bound to a wildcard address, so that each datagram tells which address it was sent to.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// The receive buffer the kernel granted, in bytes as it counts them (it doubles what it is told, so we tell it half).
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Lets datagrams longer than the path MTU be fragmented, or not. Only IPv4 needs the switch.
    pub(crate) fn set_fragmenting(&self, fragmenting: bool) -> io::Result<()> {
        if self.local.is_ipv4() { set_fragmenting(&self.socket, fragmenting) } else { Ok(()) }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// With `IP_PMTUDISC_DO` the kernel need not draw an IP identification per datagram (5 % of a forwarder's time); the
/// rare datagram above the path MTU comes back as `EMSGSIZE` and is sent again with fragmentation on.
fn set_fragmenting(socket: &Socket, fragmenting: bool) -> io::Result<()> {
    let mode = if fragmenting { libc::IP_PMTUDISC_WANT } else { libc::IP_PMTUDISC_DO };
    sys::set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
}

/// Past the system's limit where we may, up to it where we may not.
fn set_buffer(socket: &Socket, forced: i32, plain: i32, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes / 2).unwrap_or(i32::MAX);
    sys::set_option(socket.as_fd(), libc::SOL_SOCKET, forced, bytes)
        .or_else(|_| sys::set_option(socket.as_fd(), libc::SOL_SOCKET, plain, bytes))
}
