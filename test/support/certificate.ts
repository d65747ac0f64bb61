/** Of a server at 127.0.0.1, by that address alone; signed by itself, good for a hundred years. Worth nothing elsewhere. */
export const certificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtsyUG3XC4pn2Jdg0
gB4AjWCkp/fUGr9nZ11kyKdesXehRANCAASofq65jS/WrP0X1b0vPyz4ipoQk44F
WHasnkO5CZ+why3rLnmv+PYYnv/NngML+odX81d2WLzKcC2G+Vwmn1eI
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBlTCCATygAwIBAgIUEquBcGFpekLovCUKydajuW91D98wCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMUHVyc2VyIHRlc3RzMCAXDTI2MTEyODEzMDA0NVoYDzIxMjYx
MTA0MTMwMDQ1WjAXMRUwEwYDVQQDDAxQdXJzZXIgdGVzdHMwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAASofq65jS/WrP0X1b0vPyz4ipoQk44FWHasnkO5CZ+why3r
Lnmv+PYYnv/NngML+odX81d2WLzKcC2G+Vwmn1eIo2QwYjAdBgNVHQ4EFgQUm+GG
aae+o7yiGpKQjUiABOFtbRkwHwYDVR0jBBgwFoAUm+GGaae+o7yiGpKQjUiABOFt
bRkwDwYDVR0RBAgwBocEfwAAATAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMC
A0cAMEQCIFwI7mOOb2iiD37qFhcNTNFbmzwl/XfW8I2caZqlwd2EAiB/u/iIAvtG
N/uqSS/jTUU7Cb0sdrvUWzrADbaB3DhP+w==
-----END CERTIFICATE-----`,
};
