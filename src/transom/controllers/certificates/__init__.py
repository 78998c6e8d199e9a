"""Approval of the CertificateSigningRequests of kubelets."""
