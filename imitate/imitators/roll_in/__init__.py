"""The parts of DAgger and AggreVaTeD: playing and labelling, one teacher or several, the policy that learns."""
