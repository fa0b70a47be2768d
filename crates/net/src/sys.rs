//! The system calls that no library offers as we need them, each behind a safe or narrow function.
#![expect(
    unsafe_code,
    reason = "recvmmsg, sendmmsg, the error queue and epoll_pwait2 have no safe wrapper that fits"
)]

use core::mem::{size_of, zeroed};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for `SO_RXQ_OVFL` (24 bytes) and `IPV6_PKTINFO` (40), or for an error with its origin's address.
pub(crate) const CONTROL_BYTES: usize = 128;

/// Control messages, aligned as the kernel writes them.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_BYTES]);

impl Control {
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);
}

/// A socket address of either family, as the kernel reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// Bytes of the largest [`Name`].
pub(crate) const NAME_BYTES: libc::socklen_t = name_bytes::<Name>();

#[expect(clippy::cast_possible_truncation, reason = "a socket address has 16 or 28 bytes")]
const fn name_bytes<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

impl Name {
    pub(crate) const fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid value of each of the union's plain C structs.
        unsafe { zeroed() }
    }

    /// The name of `address` and its length in bytes.
    pub(crate) fn from_address(address: SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(v4) => {
                let mut name = Self::empty();
                name.v4 = libc::sockaddr_in {
                    sin_family: FAMILY_V4,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                (name, name_bytes::<libc::sockaddr_in>())
            }
            SocketAddr::V6(v6) => {
                let mut name = Self::empty();
                name.v6 = libc::sockaddr_in6 {
                    sin6_family: FAMILY_V6,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                (name, name_bytes::<libc::sockaddr_in6>())
            }
        }
    }

    /// The address, or `None` if the kernel wrote none of a family we know.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        // SAFETY: every variant starts with the family, and all bytes were initialised by `empty`.
        let family = unsafe { self.family };
        if family == FAMILY_V4 {
            // SAFETY: the family says that the kernel, or `from_address`, wrote a `sockaddr_in`; any bytes are valid.
            let v4 = unsafe { self.v4 };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
        } else if family == FAMILY_V6 {
            // SAFETY: as above, with a `sockaddr_in6`.
            let v6 = unsafe { self.v6 };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            // The flow label is the sender's affair: kept, it would make two messages of one peer look like two peers.
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)))
        } else {
            None
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "address families are small")]
const FAMILY_V4: libc::sa_family_t = libc::AF_INET as libc::sa_family_t;
#[expect(clippy::cast_possible_truncation, reason = "address families are small")]
const FAMILY_V6: libc::sa_family_t = libc::AF_INET6 as libc::sa_family_t;

/// One control message: its level, its type, its data.
pub(crate) struct ControlMessage<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: &'a [u8],
}

/// The control messages in `control`, as far as they are well-formed.
pub(crate) fn control_messages(control: &[u8]) -> impl Iterator<Item = ControlMessage<'_>> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut rest = control;
    core::iter::from_fn(move || {
        let (length, tail) = rest.split_first_chunk::<8>()?;
        let (level, tail) = tail.split_first_chunk::<4>()?;
        let (kind, _) = tail.split_first_chunk::<4>()?;
        let length = usize::from_ne_bytes(*length);
        let message = ControlMessage {
            level: i32::from_ne_bytes(*level),
            kind: i32::from_ne_bytes(*kind),
            data: rest.get(HEADER..length)?,
        };
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
        Some(message)
    })
}

/// The local address that a datagram was sent to, if `message` says so (`IP_PKTINFO`, `IPV6_PKTINFO`).
pub(crate) fn local_address(message: &ControlMessage<'_>) -> Option<IpAddr> {
    match (message.level, message.kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // in_pktinfo: interface, local address that answers, address in the header. The second one is ours also
            // when the header's is a broadcast address.
            let octets: [u8; 4] = message.data.get(4..8)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: [u8; 16] = message.data.get(0..16)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        _ => None,
    }
}

/// Bytes of one segment of a datagram that the kernel put together from several (`UDP_GRO`), if `message` says so.
pub(crate) fn segment_bytes(message: &ControlMessage<'_>) -> Option<usize> {
    if (message.level, message.kind) != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    let bytes = i32::from_ne_bytes(message.data.get(..4)?.try_into().ok()?);
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Control messages for one send, written one behind the other.
pub(crate) struct ControlWriter<'a> {
    control: &'a mut Control,
    length: usize,
}

impl<'a> ControlWriter<'a> {
    pub(crate) const fn new(control: &'a mut Control) -> Self {
        Self { control, length: 0 }
    }

    /// Makes the datagram leave from `local`.
    pub(crate) fn source(&mut self, local: IpAddr) {
        let mut data = [0; 20];
        let (level, kind, length) = match local {
            IpAddr::V4(v4) => {
                if let Some(slot) = data.get_mut(4..8) {
                    slot.copy_from_slice(&v4.octets());
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
            }
            IpAddr::V6(v6) => {
                if let Some(slot) = data.get_mut(..16) {
                    slot.copy_from_slice(&v6.octets());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
            }
        };
        self.write(level, kind, data.get(..length).unwrap_or_default());
    }

    /// Makes the kernel cut the message into datagrams of `bytes` bytes (`UDP_SEGMENT`).
    pub(crate) fn segment(&mut self, bytes: u16) {
        self.write(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
    }

    fn write(&mut self, level: i32, kind: i32, data: &[u8]) {
        let total = size_of::<libc::cmsghdr>() + data.len();
        let end = self.length + total.next_multiple_of(8);
        let Some(room) = self.control.0.get_mut(self.length..end) else { return };
        let bytes = total.to_ne_bytes().into_iter().chain(level.to_ne_bytes()).chain(kind.to_ne_bytes());
        for (to, from) in room.iter_mut().zip(bytes.chain(data.iter().copied())) {
            *to = from;
        }
        self.length = end;
    }

    /// The length of all that was written, as a header wants it.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }
}

/// Receives up to `headers.len()` datagrams without waiting; gives how many.
///
/// # Safety
///
/// Each header must point to a name, a control buffer and buffers that are writable for the lengths it says, and that
/// nothing else borrows during the call.
pub(crate) unsafe fn receive_batch(
    socket: BorrowedFd<'_>,
    headers: *mut libc::mmsghdr,
    count: usize,
) -> io::Result<usize> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // SAFETY: the caller vouches for the headers; the descriptor is open while it is borrowed.
    let received = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT, core::ptr::null_mut())
    };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Sends `count` messages without waiting; gives how many the kernel took, or why it did not take the first.
///
/// # Safety
///
/// Each header must point to a name, a control buffer and buffers that are readable for the lengths it says.
pub(crate) unsafe fn send_batch(
    socket: BorrowedFd<'_>,
    headers: *mut libc::mmsghdr,
    count: usize,
) -> io::Result<usize> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // SAFETY: the caller vouches for the headers; the descriptor is open while it is borrowed.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// One entry of a socket's error queue: whom it is about, how much of the message came back, the control messages.
pub(crate) struct Queued {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) length: usize,
    pub(crate) control: Control,
    pub(crate) control_length: usize,
}

/// Takes one entry from the socket's error queue; the message that caused it goes to `bytes`.
pub(crate) fn receive_error(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Queued> {
    let mut name = Name::empty();
    let mut control = Control::EMPTY;
    let mut buffer = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = NAME_BYTES;
    header.msg_iov = &raw mut buffer;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to live locals and to `bytes`, with their lengths.
    let received = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok(Queued { peer: name.address(), length, control, control_length: header.msg_controllen })
}

/// Sets an integer socket option.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads four bytes from a live integer.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), name_bytes::<i32>())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for events until one comes or `timeout` has passed; gives how many were written to `events`.
///
/// To the nanosecond where the kernel has `epoll_pwait2` (5.11); rounded up to milliseconds before it.
pub(crate) fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let spec = timeout.map(timespec);
    let spec_pointer = spec.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `events` is writable for `room` entries, `spec` outlives the call, and no signal mask is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            spec_pointer,
            core::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    if let Ok(ready) = usize::try_from(result) {
        return Ok(ready);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::ENOSYS) {
        return Err(error);
    }
    let millis = timeout
        .map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: as above.
    let result = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, millis) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sleeps for `time`, or less if a signal comes.
pub(crate) fn sleep(time: Duration) {
    let time = timespec(time);
    // SAFETY: the kernel reads one timespec from a live local and is asked to write none.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// The processor time, user and system, that a thread of this process has used; `None` if it has ended.
///
/// `thread` is the kernel's number of it. Reading it costs the thread itself nothing.
#[must_use]
pub fn thread_processor_time(thread: u64) -> Option<Duration> {
    let thread = i32::try_from(thread).ok().filter(|thread| *thread > 0)?;
    // How Linux numbers the scheduler's clock of a thread (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
    let clock = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to a live local, or says that there is no such clock.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (secs, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    (result == 0).then(|| Duration::new(secs, nanos))
}
