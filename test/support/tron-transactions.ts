/**
 * Transactions of Tron's mainnet as others have published them, to hold our bytes against. Block and fee are what the
 * source says of them; that they are in these blocks cannot be checked here, but nobody else could have signed them.
 */
export interface PublishedTransaction {
  readonly source: string;
  /** `raw_data_hex` of the source. */
  readonly rawData: string;
  readonly id: string;
  /** r | s | v, v 0 or 1. */
  readonly signature: string;
  readonly owner: string;
  /** `native`, or the address of the token. */
  readonly asset: string;
  readonly to: string;
  readonly amountMinor: bigint;
  /** Bytes of bandwidth that it was billed for, where the source says so. */
  readonly netUsage: number | null;
}

const ledgerLive =
  'github.com/LedgerHQ/ledger-live libs/coin-modules/coin-tron/src/network/types.fixture.ts, an answer of TronGrid';
const usdt = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';

export const publishedTransactions: readonly PublishedTransaction[] = [
  {
    source: `${ledgerLive}; block 62258698`,
    rawData:
      '0a02fdf622084cd898aed8ce5d1440f0d2ccf1fd315a65080112610a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412300a15419b3281a60ab7a44f351ef2896c653f134972ad2212154105cc125604448afeb6867eb688efb7e80411d57a1805709c91c9f1fd31',
    id: '47086db397eac45d2fe7dacedcb6f77267d6895dce645210e495e64f8a2a7910',
    signature:
      'c1c0b1ad18f56248ebc6820c611cd65683cef6b5deed8002246cc00df7e79f9f73d48c35b8c2e41694ef23c8020ab8c578c0aa57b7e079683f322e45c88b0e0700',
    owner: '419b3281a60ab7a44f351ef2896c653f134972ad22',
    asset: 'native',
    to: '4105cc125604448afeb6867eb688efb7e80411d57a',
    amountMinor: 5n,
    netUsage: 265,
  },
  {
    source: `${ledgerLive}; block 62258673, it made the recipient's account: a fee of 1.1 TRX`,
    rawData:
      '0a02fddc22083b99310ce713c98f4080c1ecf1fd315a68080112640a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412330a154105cc125604448afeb6867eb688efb7e80411d57a121541f03c5fb459d4f746ff01692b940c5a8a01480db11880c2d72f70beaec4f1fd31',
    id: 'b0b68ea41e7b46f06196ea0ff47837afe821f985eb966a4915eb3809ac893461',
    signature:
      'a3cccbc84cffff009eaddb091228dba7ef438e8b3bb20db99589425a0da036a52ef0a1d29b99f8f73a48472cdaf88bfcf25d7d00ae4988b89804dc7173482f7501',
    owner: '4105cc125604448afeb6867eb688efb7e80411d57a',
    asset: 'native',
    to: '41f03c5fb459d4f746ff01692b940c5a8a01480db1',
    amountMinor: 100_000_000n,
    netUsage: null,
  },
  {
    source: `${ledgerLive}; block 61876557`,
    rawData:
      '0a0229382208d1bf54ec9e8dec0140a0d7ffcef9315a67080112630a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412320a154105cc125604448afeb6867eb688efb7e80411d57a121541a2ff80f95ce3740235dc46a4dffe00d9f9b91f371880897a7085b5d7cef931',
    id: 'adc3f1c4cf23d4adfcf25d3cdae5378d86a209b7b9d49d69db47cae7f838c5f0',
    signature:
      '74f4f6c98b412ee5b0689e34c7434c5f55ac0a228da5abfc6fe03cae21c273aa27fba3aa70eb081604b4438d9615bd30f426705299b1c42f73b4a381dbb55b0201',
    owner: '4105cc125604448afeb6867eb688efb7e80411d57a',
    asset: 'native',
    to: '41a2ff80f95ce3740235dc46a4dffe00d9f9b91f37',
    amountMinor: 2_000_000n,
    netUsage: 267,
  },
  {
    source: `${ledgerLive}; block 60130921`,
    rawData:
      '0a02865622088e37d7d25957e32840f8cabc8ce6315a65080112610a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412300a15413b6688cfdb07824293e00a12c7ba6c3305af51cb12154105cc125604448afeb6867eb688efb7e80411d57a180470cc83b98ce631',
    id: '0f9151ed85e6a49c063dc9fc51c90c2cbc35b926b87c4018383dd7677b59d876',
    signature:
      'adb9977af42be2634244b404c1ad0c3e15f065f76107313780bc594a18c455496ab7d5af43cc0db9a68427a08ba9f0b704dc68ba8f93180a6e7c860f39076f8400',
    owner: '413b6688cfdb07824293e00a12c7ba6c3305af51cb',
    asset: 'native',
    to: '4105cc125604448afeb6867eb688efb7e80411d57a',
    amountMinor: 4n,
    netUsage: 265,
  },
  {
    source: 'github.com/bitquery/blockchain-cloud-data-dump-sample tron/transactions.js; block 78861100',
    rawData:
      '0a025313220846a60be20a563ff140c0b7e9c0b7335aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a1541db5f3f3a9798f3d1f89b2f12b6acda2fb3c91f80121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244a9059cbb00000000000000000000000029228e5d382b7a2c2a0dbc05e6d6507f4dbb3bbe0000000000000000000000000000000000000000000000000000000001cfe2eb70e7d3d3c0b733900180c2d72f',
    id: 'e122cba603b48ee234807f91859a04dbc4728f1b215d5c9c05385733bca674bc',
    signature:
      '99560ec38b72b17cb7d409b3a7799ee2486f85d37d1d93c382264a4bc57864744f90d2053c6da8cbf8e15f88cb6cc7c12629272c0b834d1c0f3002710bc2fdeb01',
    owner: '41db5f3f3a9798f3d1f89b2f12b6acda2fb3c91f80',
    asset: usdt,
    to: '4129228e5d382b7a2c2a0dbc05e6d6507f4dbb3bbe',
    amountMinor: 30_401_259n,
    netUsage: 345,
  },
  {
    source:
      "an answer of TronGrid's /v1/contracts/TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t/transactions, quoted in a Go client (package common, type ContractsTransactionReq); block 62686538",
    rawData:
      '0a0285372208f373eda9e68b4dc14098a2f1d582325aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a15418ca132af72e7864eee48eac163a1fb4028662091121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244a9059cbb000000000000000000000041838eed07fa72a857058e4f9f98bf0e6a2f1af473000000000000000000000000000000000000000000000000000000000000465170d5dbedd58232900180c2d72f',
    id: '5e8e3cdf239f31c678b6119c95c76c402a71f50947d960c3905825ee648cd75a',
    signature:
      '2c527348c6c982d4aeb1fd075b35cd1a4b09226dc5ebe402546061d5a8c0bb53d90ce89d4fadd52e323746d65f81311d4d2f77ab5a28f6ebef7ebd4ee2d0b48101',
    owner: '418ca132af72e7864eee48eac163a1fb4028662091',
    asset: usdt,
    to: '41838eed07fa72a857058e4f9f98bf0e6a2f1af473',
    amountMinor: 18_001n,
    netUsage: 345,
  },
  {
    source: "TronGrid's documentation of /wallet/getsignweight: the signed transaction of the example",
    rawData:
      '0a0268bd2208bc830d2c09fa23d14092a3bae4a3335aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a1541cf2e99409d2a9a9190197ab0bff35ca87818c41e121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244a9059cbb0000000000000000000000415d4a41a3b0cdda5c03df72b38a20aa1b88777c7500000000000000000000000000000000000000000000000000000000f9cd95c070afceb6e4a3339001c0f4a46b',
    id: '4ad97d49409cfff338d2f9e71d4019c70e82030b52e15e208b1808f2f3ea782e',
    signature:
      'c99cdc8af6f47dc65a75aa0c6da1c5be8510736e581043162c3e8525c6e0ed8f592adaa74ba250136ea6e1fb125b3d3d024ac6abd3e24c28097d66a8e2a0c0aa01',
    owner: '41cf2e99409d2a9a9190197ab0bff35ca87818c41e',
    asset: usdt,
    to: '415d4a41a3b0cdda5c03df72b38a20aa1b88777c75',
    amountMinor: 4_191_000_000n,
    netUsage: null,
  },
];
