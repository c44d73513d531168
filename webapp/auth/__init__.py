"""Who is asking: sign-in by OpenID Connect, server-side sessions, CSRF, the organization and its issuer.

Everything here is about a person's identity. What they said and what is remembered about them is not known here.
"""
