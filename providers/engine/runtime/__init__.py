"""Runtime: an opened world, its clock and accounts; calls with deadlines, retries and leases."""
