//! Sockets in batches; the only unsafe code.
